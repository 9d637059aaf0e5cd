package main

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/examples/internal/weirserve"
)

// A worker sends what weir serve allows, and stops without an error.
func TestWork(t *testing.T) {
	url := weirserve.Start(t, "rules: [{name: mail, key: mail, rate: 100/s}]")
	c, err := client.New(client.Config{URL: url, Away: client.Deny, Timeout: 10 * time.Second, OnAway: func(err error) { t.Errorf("weir serve is away: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(t.Context())
	sent := 0
	err = work(ctx, c.For("mail"), func() {
		if sent++; sent == 150 {
			stop()
		}
	})
	if err != nil || sent < 150 {
		t.Errorf("sent %d: %v", sent, err)
	}
}
