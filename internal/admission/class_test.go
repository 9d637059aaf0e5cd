package admission

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir"
)

// A class that is not known costs as little as one that is, once there are as
// many as may be: also if a client has chosen the name of the last one.
func TestClassesAreFoundWithoutALock(t *testing.T) {
	for _, first := range []string{"one", Others} {
		cs := classes{most: 10, limiter: func(string) weir.Limiter { return nil }}
		cs.of(first)
		for n := range 20 {
			cs.of(fmt.Sprint(n))
		}
		if n := len(*cs.known.Load()); n > 11 {
			t.Errorf("%d classes", n)
		}
		cs.mu.Lock() // whoever needs it waits forever
		for _, name := range []string{first, "0", "19", "unknown"} {
			c := cs.of(name)
			if known := name == first || name == "0"; known && c.name != name || !known && c.name != Others {
				t.Errorf("%q is of class %q", name, c.name)
			}
		}
		cs.mu.Unlock()
	}
}
