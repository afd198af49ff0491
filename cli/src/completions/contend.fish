
# Elements of a list, behind its last comma, or behind the `=` of KIND=LOCK.
function __contend_elements
    set -l value (commandline -ct | string replace -r -- '^--[a-z-]+=' '')
    printf '%s\n' (string replace -r -- '[^,=+]*$' '' "$value")$argv
end

# The locks in the table of the first profile on the command line.
function __contend_sites
    for file in (commandline -opc)[2..]
        test -f $file
        and contend report $file --csv 2>/dev/null | sed -n '1d; /^"/d; s/,.*//p' | string match -r .+
        and return
    end
end

