package peer_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func TestSmoke(t *testing.T) {
	s := newServer(t, server.Config{}, one("all", quota(10, time.Second, config.GCRA)))
	h := newHandler(t, peer.HandlerConfig{Decider: s, Secret: []byte(secret), Now: s.Now})
	c := dial(t, peer.Config{URL: serve(t, h), Secret: []byte(secret), Now: s.Now})
	var v decider.Verdict
	for range 12 {
		err := c.Decide(t.Context(), &decider.Request{Key: "a", N: 1, WantID: true}, &v)
		t.Logf("%v %+v", err, v)
	}
	if err := c.Wait(t.Context(), &decider.Request{Key: "a", N: 1, WantID: true, OnWait: func() { t.Log("waits") }}, &v); err != nil {
		t.Error(err)
	}
	t.Logf("%+v", v)
	x, err := c.Explain(t.Context(), "a")
	t.Logf("%+v %v", x, err)
	y, err := c.Top(t.Context(), 10)
	t.Logf("%+v %v", y, err)
}
