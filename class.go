package weir

import "context"

// A Priority says who goes first, and who is shed first, when not all work can
// be done. Higher is more important; the zero Priority is Critical, that of
// ordinary work. The four levels are those of the Google SRE book, chapter
// "Handling Overload"; any other value is a level too.
type Priority int32

const (
	Sheddable     Priority = -2 // batch work, that can wait for hours: shed first
	SheddablePlus Priority = -1 // batch work that somebody waits for
	Critical      Priority = 0  // what users wait for
	CriticalPlus  Priority = 1  // what must not fail
)

// A Class is what a queue knows about a request, beside its units. The zero
// Class is ordinary work of nobody in particular.
type Class struct {
	Priority  Priority
	Tenant    string // whose work it is: tenants share a queue fairly
	Partition string // which guaranteed share of a limit it may use
}

type classKey struct{}

// ClassOf returns the Class of the work under ctx.
func ClassOf(ctx context.Context) Class {
	c, _ := ctx.Value(classKey{}).(*Class)
	if c == nil {
		return Class{}
	}
	return *c
}

// WithClass returns a context for work of class c.
func WithClass(ctx context.Context, c Class) context.Context {
	return context.WithValue(ctx, classKey{}, &c)
}

// WithPriority returns a context for work of priority p, of the same Class
// otherwise.
func WithPriority(ctx context.Context, p Priority) context.Context {
	c := ClassOf(ctx)
	c.Priority = p
	return WithClass(ctx, c)
}

// WithTenant returns a context for work of a tenant, of the same Class
// otherwise.
func WithTenant(ctx context.Context, tenant string) context.Context {
	c := ClassOf(ctx)
	c.Tenant = tenant
	return WithClass(ctx, c)
}

// WithPartition returns a context for work of a partition, of the same Class
// otherwise.
func WithPartition(ctx context.Context, partition string) context.Context {
	c := ClassOf(ctx)
	c.Partition = partition
	return WithClass(ctx, c)
}
