// Package priority has the names of priorities in protocols and files.
package priority

import (
	"strings"

	"github.com/weir-go/weir"
)

// names has the names of the priorities from weir.Sheddable on.
var names = [...]string{"sheddable", "sheddable_plus", "critical", "critical_plus"}

// Name returns the name of a priority, or of the nearest one that has a name.
func Name(p weir.Priority) string {
	return names[min(max(p, weir.Sheddable), weir.CriticalPlus)-weir.Sheddable]
}

// Parse returns the priority with a name, in any case. It is at most Critical
// unless the client is trusted.
func Parse(s string, trusted bool) (weir.Priority, bool) {
	s = strings.TrimSpace(s)
	for i, name := range names {
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
