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
		{client.Config{URL: url, Away: client.Deny}, ""},
		{client.Config{URL: "https://weir.example/limits/", Away: client.Local, Instances: 1}, ""},
		{client.Config{}, `URL = ""`},
		{client.Config{URL: "127.0.0.1:8080"}, "URL"},
		{client.Config{URL: "ftp://a"}, "URL"},
		{client.Config{URL: "http://"}, "URL"},
		{client.Config{URL: "http://a?b"}, "URL"},
		{client.Config{URL: "http://a#b"}, "URL"},
		{client.Config{URL: "http://user:secret@a"}, "URL"},
		{client.Config{URL: url, Token: "a\nb"}, "Token"},
		{client.Config{URL: url, Away: client.Deny, Timeout: -1}, "Timeout = -1ns"},
		{client.Config{URL: url, Away: client.Deny, MaxWait: -1}, "MaxWait = -1ns"},
		{client.Config{URL: url, Away: client.Deny, MaxWait: math.MaxInt64}, "MaxWait"},
		{client.Config{URL: url, Away: client.Deny, TTL: -1}, "TTL = -1ns"},
		{client.Config{URL: url, Queue: -1}, "Queue = -1"},
		{client.Config{URL: url}, "Away = 0: must be Deny, Allow or Local"},
		{client.Config{URL: url, Away: 4}, "Away = 4"},
		{client.Config{URL: url, Away: client.Local}, "Instances = 0"},
		{client.Config{URL: url, Away: client.Allow, Instances: -1}, "Instances = -1"},
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
