
# Values in lists: those before the last comma stay.
function __rankmark_list
    set -l token (string replace -r -- '^--[^=]*=' '' (commandline -ct))
    set -l before (string match -r -- '.*,' $token)
    printf "$before%s\n" $argv
end
