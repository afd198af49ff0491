# The locks in the table of the first profile on the command line.
_contend_sites() {
    local file
    local -a sites
    for file in ${(Q)words[2,-1]}; do
        [[ -f $file ]] || continue
        sites=(${(f)"$(contend report $file --csv 2>/dev/null | sed -n '1d; /^"/d; s/,.*//p')"})
        (( $#sites )) && compadd "$@" -a sites && return
    done
}

