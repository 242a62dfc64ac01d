
# Lists (`--backend shm,m<TAB>`) and `--option=value`, for which _rankmark is asked as if they stood alone.
_rankmark_values() {
    local current="$2" previous="$3" head=""
    if [[ "$current" == "=" ]]; then
        current=""
    elif [[ "$previous" == "=" ]] && ((COMP_CWORD >= 2)); then
        previous="${COMP_WORDS[COMP_CWORD - 2]}"
    fi
    if [[ "$current" == *,* ]]; then
        head="${current%,*},"
        current="${current##*,}"
    fi
    _rankmark "$1" "$current" "$previous"
    if [[ -n "$head" ]]; then
        COMPREPLY=("${COMPREPLY[@]/#/$head}")
    fi
}
complete -F _rankmark_values -o bashdefault -o default rankmark
