package caller

import (
	"crypto/sha256"
	"strings"
)

// MaxKey is the length in bytes up to which Key does not hash a text.
const MaxKey = 256

// Key returns a copy of a text, or its SHA-256 if it is longer than MaxKey. It
// reports whether the text is not empty.
func Key(s string) (string, bool) {
	if len(s) > MaxKey {
		sum := sha256.Sum256([]byte(s))
		return "\x00" + string(sum[:]), true // no header begins with NUL
	}
	return strings.Clone(s), s != ""
}
