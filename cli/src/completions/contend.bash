# The locks in the table of the first profile on the command line.
_contend_sites() {
    local file
    for file in "${COMP_WORDS[@]:1}"; do
        [[ -f $file ]] && contend report "$file" --csv 2>/dev/null | sed -n '1d; /^"/d; s/,.*//p' | grep . && return
    done
}

# Completes what `_contend` does, and besides an element of a list behind its last comma, a lock behind KIND= or SITE=, and the locks of a
# profile behind --site.
_contend_elements() {
    local word before="" whole start="" option value element head name
    local -a words=()
    # Bash splits words at `=` and `:`.
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 1 && ($word == [=:]* || $before == *[=:]) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        before=$word
    done
    whole=${words[-1]}
    value=$whole
    option=${words[-2]-}
    unset 'words[-1]'
    if [[ $whole == --*=* ]]; then
        option=${whole%%=*}
        start=$option=
        value=${whole#*=}
        words+=("$option")
    fi
    element=${value##*[,=+]}
    head=${value%"$element"}
    COMPREPLY=()
    if [[ $option == --site ]]; then
        head=""
        # Not by `compgen -W`, which would run what a name may hold.
        while IFS= read -r name; do
            [[ $name != "$value"* ]] || COMPREPLY+=("$(printf %q "$name")")
        done < <(_contend_sites)
    elif [[ $option == --* && ($head || $whole != "$2") ]]; then
        local -a COMP_WORDS=("${words[@]}" "$element")
        if [[ $option == --only && $head == *= ]]; then
            option=--lock # what stands behind SITE=
            COMP_WORDS[-2]=--lock
        fi
        local COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _contend "$1" "$element" "$option"
    else
        _contend "$@"
        return
    fi
    # What bash has before the word that it completes is there already.
    local place kept=${whole%"$2"}
    for place in "${!COMPREPLY[@]}"; do
        value=$start$head${COMPREPLY[place]}
        COMPREPLY[place]=${value#"$kept"}
    done
}

