package match

import "unicode/utf8"

// globbed reports whether a well-formed glob matches a key, and after how many steps.
//
// It goes through both side by side. Where they differ, the last * takes one more
// character. Earlier stars need no second try: the text between two stars was found at
// its first place in the key. So there are at most (len(glob)+1) × (len(key)+1) steps.
func globbed(glob, key string) (matched bool, steps int) {
	starred, afterStar, retry := false, "", "" // after the last *: the glob, and the key from where it is searched for
	for {
		steps++
		if glob == "" && key == "" {
			return true, steps
		}
		if glob != "" && glob[0] == '*' {
			glob = glob[1:]
			starred, afterStar, retry = true, glob, key
			if glob == "" {
				return true, steps
			}
			continue
		}
		if g, k := sameCharacter(glob, key); k > 0 {
			glob, key = glob[g:], key[k:]
			continue
		}
		if !starred || retry == "" {
			return false, steps
		}
		retry = retry[width(retry):]
		glob, key = afterStar, retry
	}
}

// sameCharacter returns the lengths of the first characters of a glob and a key, or
// zeros if they differ.
func sameCharacter(glob, key string) (inGlob, inKey int) {
	if glob == "" || key == "" {
		return 0, 0
	}
	n := width(key)
	if glob[0] == '?' {
		return 1, n
	}
	escape := 0
	if glob[0] == '\\' {
		escape = 1
	}
	if m := width(glob[escape:]); glob[escape:escape+m] != key[:n] {
		return 0, 0
	}
	return escape + n, n
}

// width returns the length of the first character in bytes: 1 if it is not UTF-8.
func width(s string) int {
	if s[0] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}
