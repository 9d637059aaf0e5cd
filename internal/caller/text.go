package caller

import (
	"crypto/sha256"
	"strings"

	"github.com/weir-go/weir"
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

// levels are the names of the priorities from weir.Sheddable on, in protocols.
var levels = [...]string{"sheddable", "sheddable_plus", "critical", "critical_plus"}

// LevelName returns the name of a priority, or of the nearest one that has a name.
func LevelName(p weir.Priority) string {
	return levels[min(max(p, weir.Sheddable), weir.CriticalPlus)-weir.Sheddable]
}

// Priority returns the priority with a name, in any case. It is at most Critical
// unless the client is trusted.
func Priority(s string, trusted bool) (weir.Priority, bool) {
	s = strings.TrimSpace(s)
	for i, name := range levels {
		if strings.EqualFold(s, name) {
			p := weir.Sheddable + weir.Priority(i)
			if !trusted {
				p = min(p, weir.Critical)
			}
			return p, true
		}
	}
	return 0, false
}
