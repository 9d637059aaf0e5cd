package main

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
)

func TestSlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipenet.Listen()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- serve(ctx, newLink(p)) }()
		client := http.Client{Transport: &http.Transport{DialContext: p.Dial}}
		get := func(path string) (int, time.Duration) {
			began := time.Now()
			resp, err := client.Get("http://link" + path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			n, err := io.Copy(io.Discard, resp.Body)
			if err != nil || resp.ContentLength != n {
				t.Errorf("%d bytes of %d: %v", n, resp.ContentLength, err)
			}
			return resp.StatusCode, time.Since(began)
		}
		// The burst is a tenth of a second's worth; the headers take a little.
		if code, took := get("/480000"); code != 200 || took < 9900*time.Millisecond || took > 10*time.Second {
			t.Errorf("%d after %v: want 480 kB to take ten seconds", code, took)
		}
		if code, _ := get("/much"); code != 404 {
			t.Errorf("status %d", code)
		}
		client.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
