package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

// example returns a Client of a fake server. A real one is made with
//
//	client.New(client.Config{URL: "http://127.0.0.1:8080", Away: client.Deny})
func example(f *fake) *client.Client { return f.client(client.Config{MaxWait: 1}) }

// Ann has two attempts to log in.
func ExampleClient_Take() {
	server := newFake()
	server.tokens["login:ann"] = 2
	c := example(server)
	defer c.Close()

	for range 3 {
		d, err := c.Take(context.Background(), "login:ann", 1)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter, err)
	}
	// Output:
	// true 1 0s <nil>
	// true 0 0s <nil>
	// false 0 1s <nil>
}

// Hold is a lock if the limit of its key is 1. The holder learns when it loses the
// lock, and storage can refuse the token of an earlier holder.
func ExampleClient_Hold() {
	server := newFake()
	server.units["reindex"] = 1
	c := example(server)
	defer c.Close()

	lock, err := c.Hold(context.Background(), "reindex", 1)
	if err != nil {
		panic(err)
	}
	err = weir.Do(context.Background(), c.Lease("reindex"), func(context.Context) error { return nil })
	fmt.Println("another holder is refused:", errors.Is(err, weir.ErrRejected))

	write := func(ctx context.Context, token uint64) error { return ctx.Err() } // to storage that compares tokens
	fmt.Println(write(lock, lock.Token))
	lock.Release(weir.Success)
	fmt.Println(write(lock, lock.Token))
	// Output:
	// another holder is refused: true
	// <nil>
	// context canceled
}
