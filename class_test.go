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
	ctx := weir.WithTenant(background, "acme")
	ctx = weir.WithPriority(ctx, weir.SheddablePlus)
	inner := weir.WithPartition(ctx, "batch")
	inner = weir.WithTenant(inner, "acme/eu")
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

func TestAbandoned(t *testing.T) {
	for o, want := range map[weir.Outcome]bool{
		weir.Ignored: false, weir.Success: false, weir.Dropped: false, weir.TimedOut: true, weir.Left: true, weir.Late: false,
	} {
		if o.Abandoned() != want {
			t.Errorf("%v: abandoned %v: want %v", o, !want, want)
		}
	}
}
