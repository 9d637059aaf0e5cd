package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// serve stands for weir serve with these rules; use 127.0.0.1:8080 instead.
func serve(of ...config.Rule) *httptest.Server {
	core, _ := server.New(server.Config{Rules: rules(of...)})
	api, _ := httpapi.New(core, httpapi.Config{})
	s := httptest.NewUnstartedServer(api)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	return s
}

func ExampleClient_Take() {
	s := serve(config.Rule{Glob: "login:*", Quota: config.Quota{Rate: config.Rate{Count: 2, Period: time.Hour}}})
	defer s.Close()
	c, err := client.New(client.Config{URL: s.URL, Away: client.Deny, Timeout: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for range 3 {
		d, err := c.Take(context.Background(), "login:ann", 1)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter.Round(time.Minute), err)
	}
	// Output:
	// true 1 0s <nil>
	// true 0 0s <nil>
	// false 0 30m0s <nil>
}

// Hold is a lock that its holder is told of when it is lost.
func ExampleClient_Hold() {
	s := serve(config.Rule{Key: "reindex", Concurrency: &config.Concurrency{Limit: 1, TTL: 30 * time.Second}})
	defer s.Close()
	c, err := client.New(client.Config{URL: s.URL, Away: client.Deny, Timeout: 10 * time.Second, MaxWait: 200 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	held, err := c.Hold(context.Background(), "reindex", 1)
	if err != nil {
		panic(err)
	}
	write := func(ctx context.Context, token uint64) error { return ctx.Err() } // refuses tokens lower than the last
	fmt.Println(write(held.Context, held.Token))

	err = weir.Do(context.Background(), c.Lease("reindex"), func(context.Context) error { return nil })
	fmt.Println(errors.Is(err, weir.ErrRejected))
	held.Release(weir.Success)
	fmt.Println(write(held.Context, held.Token))
	// Output:
	// <nil>
	// true
	// context canceled
}
