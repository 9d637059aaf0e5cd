package pathshape

import (
	"strings"
	"testing"
)

func TestShape(t *testing.T) {
	long := strings.Repeat("x", maxElement+1)
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/", "/"},
		{"GET", "", ""},
		{"GET", "/users", "/users"},
		{"GET", "/users/", "/users/"},
		{"GET", "/v1/users", "/v1/users"},
		{"GET", "/users/4711", "/users/*"},
		{"GET", "/users/4711/orders/7", "/users/*/orders/*"},
		{"GET", "/users/" + long, "/users/*"},
		{"GET", "/x{y}/a b", "/*/*"},
		{"GET", "/a/b/c/d/e/f/g/h", "/a/b/c/d/e/f/g/h"},
		{"GET", "/a/b/c/d/e/f/g/h/i", "/a/b/c/d/e/f/g/h/*"},
		{"GET", "/a/b/c/d/e/f/g/h/i/j/", "/a/b/c/d/e/f/g/h/*"},
		{"POST", "/users", "POST /users"},
		{"POST", "/users/4711", "POST /users/*"},
		{"OPTIONS", "*", "OPTIONS /*"},
		{strings.ToUpper(long), "/", "* /"},
	} {
		if got := Shape(c.method, c.path); got != c.want {
			t.Errorf("%s %s has the shape %q: want %q", c.method, c.path, got, c.want)
		}
	}
}

// FuzzShape expects the shape of a path to be its own shape, short, and made in one allocation at most.
func FuzzShape(f *testing.F) {
	for _, path := range []string{"/", "/a/b", "/a/", "/users/4711/orders", "/{x}", "//", "/ä/%00", "/1/2/3/4/5/6/7/8/9/10"} {
		f.Add("GET", path)
		f.Add("POST", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		shape := Shape(method, path)
		if again := Shape("GET", shape[strings.IndexByte(shape, ' ')+1:]); !strings.HasSuffix(shape, again) {
			t.Errorf("%q has the shape %q, which has %q", path, shape, again)
		}
		if most := (1 + maxElements) * (1 + maxElement); len(shape) > most {
			t.Errorf("%q has a shape of %d bytes: want %d at most", path, len(shape), most)
		}
		if n := testing.AllocsPerRun(1, func() { Shape(method, path) }); n > 1 {
			t.Errorf("%q: %v allocations: want 1 at most", path, n)
		}
	})
}

func BenchmarkShape(b *testing.B) {
	for name, path := range map[string]string{"plain": "/v1/items/latest", "identifiers": "/users/4711/orders/0815"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Shape("GET", path)
			}
		})
	}
}
