package main

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := keyed.New[netip.Addr](gcra.Per(1, 2*time.Second, 5), keyed.Config{})
		if err != nil {
			t.Fatal(err)
		}
		h := limited(lim, http.HandlerFunc(hello))
		ask := func(from string) *http.Response {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Result()
		}
		for i := range 5 {
			if resp := ask("192.0.2.1:80"); resp.StatusCode != 200 {
				t.Errorf("request %d: %s", i, resp.Status)
			}
		}
		time.Sleep(500 * time.Millisecond)
		if resp := ask("192.0.2.1:81"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "2" {
			t.Errorf("%s, %v: want to be told to wait 2 s", resp.Status, resp.Header)
		}
		if resp := ask("[2001:db8::1]:80"); resp.StatusCode != 200 {
			t.Errorf("another address: %s", resp.Status)
		}
		if resp := ask("somebody"); resp.StatusCode != 400 {
			t.Errorf("no address: %s", resp.Status)
		}
		time.Sleep(1500 * time.Millisecond)
		if resp := ask("192.0.2.1:80"); resp.StatusCode != 200 {
			t.Errorf("after the wait: %s", resp.Status)
		}
	})
}
