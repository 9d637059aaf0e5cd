package client_test

import (
	"math"
	"strings"
	"testing"

	"github.com/weir-go/weir/client"
)

func TestBadConfig(t *testing.T) {
	const url = "http://127.0.0.1:8080"
	for _, tt := range []struct {
		cfg  client.Config
		want string // in the error; empty: none
	}{
		{client.Config{URL: url}, ""},
		{client.Config{URL: "https://weir.example/limits/"}, ""},
		{client.Config{}, `URL = ""`},
		{client.Config{URL: "127.0.0.1:8080"}, "URL"},
		{client.Config{URL: "ftp://a"}, "URL"},
		{client.Config{URL: "http://"}, "URL"},
		{client.Config{URL: "http://a?b"}, "URL"},
		{client.Config{URL: "http://a#b"}, "URL"},
		{client.Config{URL: "http://user:secret@a"}, "URL"},
		{client.Config{URL: url, Token: "a\nb"}, "Token"},
		{client.Config{URL: url, Timeout: -1}, "Timeout = -1ns"},
		{client.Config{URL: url, MaxWait: -1}, "MaxWait = -1ns"},
		{client.Config{URL: url, MaxWait: math.MaxInt64}, "MaxWait"},
		{client.Config{URL: url, TTL: -1}, "TTL = -1ns"},
		{client.Config{URL: url, Queue: -1}, "Queue = -1"},
		{client.Config{URL: url, Away: 3}, "Away = 3"},
		{client.Config{URL: url, Share: -0.5}, "Share = -0.5"},
		{client.Config{URL: url, Share: 1.5}, "Share = 1.5"},
		{client.Config{URL: url, Share: math.NaN()}, "Share = NaN"},
	} {
		c, err := client.New(tt.cfg)
		if err == nil {
			must(t, c.Close())
		}
		switch {
		case tt.want == "":
			must(t, err)
		case err == nil || !strings.HasPrefix(err.Error(), "client: "+tt.want):
			t.Errorf("%+v: %v: want client: %s", tt.cfg, err, tt.want)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%v: tells a secret", err)
		}
	}
}
