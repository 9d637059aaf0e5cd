package weir_test

import (
	"context"
	"testing"

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
