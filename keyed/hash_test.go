package keyed_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

// A key of an interface type that cannot be compared panics, and blocks no other call.
func TestAKeyWithoutAHash(t *testing.T) {
	q := gcra.Per(1, time.Hour, 5)
	l, err := keyed.New[any](q, keyed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(key any){
		"Take":                func(key any) { l.Take(key, 1) },
		"Settle":              func(key any) { l.Settle(key, 1, 0) },
		"SetQuotaFor":         func(key any) { l.SetQuotaFor(key, &q) },
		"SetQuotaFor nothing": func(key any) { l.SetQuotaFor(key, nil) },
		"Acquire":             func(key any) { _, _ = l.For(key).Acquire(context.Background(), 1) },
		"TokensAt":            func(key any) { l.For(key).TokensAt(time.Now()) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: want a panic", name)
				}
			}()
			call([]string{"a slice"})
		}()
		l.SetQuota(q)
		l.SetQuotaFor("a", &q)
		l.Take("a", 0)
	}
}
