package cache

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
)

// Between the end of a fill and that of its run, and between a run's begin and
// that of its fill, nobody can look from outside: so a run with nothing of the
// Cache in it stands for those. Who comes after a Delete does not join it.
func TestNoneJoinsARunFromBeforeADelete(t *testing.T) {
	for name, forget := range map[string]func(*Cache[string, int]){
		"Delete": func(c *Cache[string, int]) { c.Delete("a") },
		"Purge":  func(c *Cache[string, int]) { c.Purge() },
		"Set, and deleted": func(c *Cache[string, int]) {
			c.Set("a", 5)
			c.Delete("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New(Config[string, int]{})
				if err != nil {
					t.Fatal(err)
				}
				end := make(chan struct{})
				go c.runs.Load().Do(context.Background(), "a", func(context.Context) (int, error) {
					<-end
					return 1, nil
				})
				synctest.Wait()
				forget(c)
				go func() {
					v, s, err := c.Lookup(context.Background(), "a", func(context.Context, string) (int, error) { return 2, nil })
					if v != 2 || s != Filled || err != nil {
						t.Errorf("%d, %v, %v: want 2, filled", v, s, err)
					}
				}()
				synctest.Wait()
				close(end)
				synctest.Wait()
			})
		})
	}
}

// A fill leaves no trace among those that run, however it ends.
func TestNothingIsLeftOfAFill(t *testing.T) {
	armed := false
	c, err := New(Config[any, int]{ErrorTTL: 1, KeepError: func(error) bool {
		if armed {
			panic("boom")
		}
		return true
	}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(fill func(context.Context, any) (int, error)) {
		for _, key := range []any{"a", nan} {
			c.Get(context.Background(), key, fill)
		}
		if n := len(c.filling); n != 0 {
			t.Errorf("%d fills are left", n)
		}
	}
	ask(func(context.Context, any) (int, error) { return 1, nil })
	c.Purge()
	ask(func(context.Context, any) (int, error) { return 1, errEnded })
	c.Purge()
	ask(func(context.Context, any) (int, error) { panic("boom") })
	armed = true
	ask(func(context.Context, any) (int, error) { return 1, context.DeadlineExceeded })
}

var nan = math.NaN()

// Between a lookup and its run another run may have ended: what that has left
// is the answer, a value or an error.
func TestAnotherRunHasEnded(t *testing.T) {
	c, err := New(Config[string, int]{ErrorTTL: 1 << 60})
	if err != nil {
		t.Fatal(err)
	}
	fail := func(context.Context, string) (int, error) { return 0, errEnded }
	none := func(context.Context, string) (int, error) {
		t.Error("a fill too many")
		return 0, nil
	}
	c.Set("a", 5)
	if v, s, err := c.miss(context.Background(), c.hash("a"), "a", nil, none); v != 5 || s != Hit || err != nil {
		t.Errorf("%d, %v, %v: want 5, hit", v, s, err)
	}
	c.Get(context.Background(), "b", fail)
	if _, _, err := c.miss(context.Background(), c.hash("b"), "b", nil, none); err != errEnded {
		t.Errorf("%v: want the error that is kept", err)
	}
}

// A run that everybody has left before its fill began does not begin it.
func TestNoFillForNobody(t *testing.T) {
	c, err := New(Config[string, int]{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l := &lookup[string, int]{c: c, hash: c.hash("a"), key: "a", fill: func(context.Context, string) (int, error) {
		t.Error("a fill for nobody")
		return 0, nil
	}}
	if _, err := l.run(ctx); err != context.Canceled || c.Stats().Fills != 0 {
		t.Errorf("%v, %+v: want no fill", err, c.Stats())
	}
}
