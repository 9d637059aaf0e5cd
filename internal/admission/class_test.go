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
		cs := classes{limiter: func(string) weir.Limiter { return nil }}
		cs.get(first)
		for n := range MaxClasses + 10 {
			cs.get(fmt.Sprint(n))
		}
		if n := len(*cs.known.Load()); n > MaxClasses+1 {
			t.Errorf("%d classes", n)
		}
		cs.mu.Lock() // a look-up with a lock would wait forever
		for _, name := range []string{first, "0", fmt.Sprint(MaxClasses + 9), "unknown"} {
			c := cs.get(name)
			if known := name == first || name == "0"; known && c.name != name || !known && c.name != Others {
				t.Errorf("%q is of class %q", name, c.name)
			}
		}
		cs.mu.Unlock()
	}
}

// The limiter of a class may be made by asking for that of another.
func TestALimiterThatNeedsAnother(t *testing.T) {
	var d *Door[string]
	made := map[string]weir.Limiter{}
	d = New(Config[string]{PerClass: func(class string) weir.Limiter {
		if class == "inner" {
			made[class] = weir.Chain()
			return made[class]
		}
		var v Visit[string]
		if err := d.Enter(t.Context(), "", "inner", &v); err != nil {
			t.Error(err)
		}
		v.Leave(weir.Success)
		return nil
	}})
	var v Visit[string]
	if err := d.Enter(t.Context(), "", "outer", &v); err != nil || made["inner"] == nil {
		t.Errorf("%v, %v", err, made)
	}
}
