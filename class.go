package weir

import (
	"context"

	"github.com/weir-go/weir/internal/classkey"
)

// A Priority is the importance of work: higher priorities go first, and lower
// ones are shed first. The zero Priority is Critical, that of ordinary work.
// The four levels come from the Google SRE book, chapter "Handling Overload";
// any other value is a level too.
type Priority int32

const (
	Sheddable     Priority = -2 // batch work that can wait for hours: shed first
	SheddablePlus Priority = -1 // batch work that a user waits for
	Critical      Priority = 0  // what users wait for
	CriticalPlus  Priority = 1  // what must not fail
)

// A Class describes a request to a queue, besides its units. The zero Class is ordinary
// work without a tenant and a partition.
type Class struct {
	Priority  Priority
	Tenant    string // tenants share a queue fairly
	Partition string // a partition has a guaranteed share of a limit
	Route     string // a limit that finds itself compares how long work takes with other work of its route
}

// A classContext is a context with a Class, in one allocation.
type classContext struct {
	context.Context
	class Class
}

func (c *classContext) Value(key any) any {
	if key == (classkey.Key{}) {
		return &c.class
	}
	return c.Context.Value(key)
}

// ClassOf returns the Class in ctx, the zero Class if there is none.
func ClassOf(ctx context.Context) Class {
	if c, ok := ctx.Value(classkey.Key{}).(*Class); ok {
		return *c
	}
	return Class{}
}

// WithClass returns a context with class c. To change one field, start from
// ClassOf:
//
//	c := weir.ClassOf(ctx)
//	c.Priority = weir.Sheddable
//	ctx = weir.WithClass(ctx, c)
//
// It panics if ctx is nil.
func WithClass(ctx context.Context, c Class) context.Context {
	if ctx == nil {
		panic("weir: WithClass of a nil context")
	}
	return &classContext{ctx, c}
}
