package caller

import (
	"crypto/sha256"
	"strings"

	"github.com/weir-go/weir"
)

// MaxKey is the longest text that Key leaves as it is, in bytes.
const MaxKey = 256

// Key returns a text that is no longer than MaxKey, and no part of a longer one
// that would be kept with it; of a longer text its SHA-256. It reports whether
// the text is not empty.
func Key(s string) (string, bool) {
	if len(s) > MaxKey {
		sum := sha256.Sum256([]byte(s))
		return "\x00" + string(sum[:]), true // no header begins so
	}
	return strings.Clone(s), s != ""
}

// levels are what protocols call the priorities from weir.Sheddable on.
var levels = [...]string{"sheddable", "sheddable_plus", "critical", "critical_plus"}

// Levels is how many there are.
const Levels = len(levels)

// Level returns the number of the level that a priority belongs to.
func Level(p weir.Priority) int {
	return int(min(max(p, weir.Sheddable), weir.CriticalPlus) - weir.Sheddable)
}

// LevelName returns what protocols call a level.
func LevelName(level int) string { return levels[level] }

// Priority returns the priority that a client calls so, in any case. Unless it is
// trusted, that is Critical at most.
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
