package weir_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir"
)

func TestClass(t *testing.T) {
	background := context.Background()
	if c := weir.ClassOf(background); c != (weir.Class{}) {
		t.Errorf("%+v: want the zero Class where nobody set one", c)
	}
	ctx := weir.WithClass(background, weir.Class{Priority: weir.SheddablePlus, Tenant: "acme"})
	c := weir.ClassOf(ctx)
	c.Partition, c.Tenant = "batch", "acme/eu"
	inner := weir.WithClass(ctx, c)
	c.Tenant = "changed after"
	if c, want := weir.ClassOf(ctx), (weir.Class{Priority: weir.SheddablePlus, Tenant: "acme"}); c != want {
		t.Errorf("%+v: want %+v, whatever was derived from it", c, want)
	}
	if c, want := weir.ClassOf(inner), (weir.Class{Priority: weir.SheddablePlus, Tenant: "acme/eu", Partition: "batch"}); c != want {
		t.Errorf("%+v: want %+v", c, want)
	}
	if c := weir.ClassOf(weir.WithClass(inner, weir.Class{})); c != (weir.Class{}) {
		t.Errorf("%+v: want the Class that was set last", c)
	}
}

// A context with a Class costs one allocation, and keeps the values, the deadline and the end
// of its parent.
func TestClassContext(t *testing.T) {
	type key struct{}
	parent, cancel := context.WithTimeout(context.WithValue(context.Background(), key{}, 1), time.Hour)
	ctx := weir.WithClass(parent, weir.Class{Tenant: "acme"})
	if _, dated := ctx.Deadline(); !dated || ctx.Value(key{}) != 1 {
		t.Error("the parent's deadline or value is lost")
	}
	inner, stop := context.WithCancel(context.WithValue(ctx, key{}, 2))
	defer stop()
	cancel()
	<-inner.Done()
	if weir.ClassOf(inner).Tenant != "acme" {
		t.Errorf("%+v", weir.ClassOf(inner))
	}
	if n := testing.AllocsPerRun(100, func() { sink = weir.WithClass(parent, weir.Class{}) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("a nil context is accepted")
		}
	}()
	var none context.Context
	weir.WithClass(none, weir.Class{})
}

var sink context.Context
