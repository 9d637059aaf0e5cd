package match

import "unicode/utf8"

// globbed reports whether a well-formed glob matches a key.
func globbed(glob, key string) bool {
	w := walk{glob: glob, key: key}
	for w.step() {
	}
	return w.matched
}

// A walk goes through a glob and a key side by side. Where they differ, the last *
// takes one more character. Earlier stars need no second try: the text between two
// stars was found at its first place in the key. So there are at most
// (len(glob)+1) × (len(key)+1) steps.
type walk struct {
	glob, key string // what is left
	matched   bool

	starred         bool   // there was a *
	afterGlob, more string // the glob after the last *, and the key from where it is searched for
}

// step advances by one character, and reports whether there is more to do.
func (w *walk) step() bool {
	if w.glob != "" && w.glob[0] == '*' {
		w.glob = w.glob[1:]
		w.starred, w.afterGlob, w.more = true, w.glob, w.key
		w.matched = w.glob == ""
		return !w.matched
	}
	if w.glob == "" && w.key == "" {
		w.matched = true
		return false
	}
	if w.glob != "" && w.key != "" && w.same() {
		return true
	}
	if !w.starred || w.more == "" {
		return false
	}
	w.more = w.more[width(w.more):]
	w.glob, w.key = w.afterGlob, w.more
	return true
}

// same reports whether the next character of the key matches that of the glob, and
// advances both if so.
func (w *walk) same() bool {
	n := width(w.key)
	rest := w.glob
	if rest[0] == '?' {
		w.glob, w.key = rest[1:], w.key[n:]
		return true
	}
	if rest[0] == '\\' {
		rest = rest[1:]
	}
	if m := width(rest); rest[:m] != w.key[:n] {
		return false
	}
	w.glob, w.key = rest[n:], w.key[n:]
	return true
}

// width returns the length of the first character in bytes: 1 if it is not UTF-8.
func width(s string) int {
	if s[0] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}
