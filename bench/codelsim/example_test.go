package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/bohde/codel"
)

func work(context.Context) error { return nil }

// What inflight's Example_codel replaces.
func Example_lock() {
	lock := codel.New(codel.Options{
		MaxPending:     100,
		MaxOutstanding: 10,

		TargetLatency: 5 * time.Millisecond,
	})

	serve := func(ctx context.Context) error {
		err := lock.Acquire(ctx)
		if err != nil {
			return err // codel.Dropped, or ctx's
		}
		defer lock.Release()
		return work(ctx)
	}

	fmt.Println(serve(context.Background()))
	// Output: <nil>
}

// What inflight's Example_priority replaces.
func Example_plock() {
	lock := codel.NewPriority(codel.Options{
		MaxPending:     100,
		MaxOutstanding: 10,

		TargetLatency: 5 * time.Millisecond,
	})

	serve := func(ctx context.Context, p int) error {
		err := lock.Acquire(ctx, p)
		if err != nil {
			return err
		}
		defer lock.Release()
		return work(ctx)
	}

	fmt.Println(serve(context.Background(), 10))
	// Output: <nil>
}

// The code in docs/codel.md is the code of these examples.
func TestDocs(t *testing.T) {
	var code strings.Builder
	for _, name := range []string{"example_test.go", "../../inflight/codel_example_test.go"} {
		b, err := os.ReadFile(name)
		testrig.Must(t, err)
		code.WriteString(strings.ReplaceAll("\n"+string(b), "\n\t", "\n"))
	}
	doc, err := os.ReadFile("../../docs/codel.md")
	testrig.Must(t, err)
	blocks := strings.Split(string(doc), "```go\n")[1:]
	if len(blocks) < 4 {
		t.Errorf("%d blocks of code: want both sides of both locks at least", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		for part := range strings.SplitSeq(block, "…\n") { // an ellipsis leaves something out
			if !strings.Contains(code.String(), "\n"+part) {
				t.Errorf("not in the examples:\n%s", part)
			}
		}
	}
}
