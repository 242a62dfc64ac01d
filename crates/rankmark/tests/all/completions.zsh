# Types each line of ./lines and a tab into a zsh of its own, and prints the arguments that the line then has.
zmodload zsh/zpty || exit 9
zpty z 'zsh -f -i'
zpty -w z 'PS1=; autoload -U compinit; compinit -u -D; source ./rankmark.zsh; rankmark() { print "GOT""<$*>" }; print REA""DY'
zpty -r -m z out '*READY*' || exit 1
while read -r line; do
    zpty -w -n z "$line"$'\t\n'
    zpty -r -m z out '*GOT<*>*' || exit 1
    out=${out##*GOT<}
    print -r -- ${out%%>*}
done < ./lines
zpty -d z
