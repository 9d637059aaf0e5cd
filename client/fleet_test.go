package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/rendezvous"
)

// instances are fakes by host, of which one can be down.
type instances struct {
	fake *fake

	mu    sync.Mutex // guards what follows
	down  string
	asked map[string]int // requests by host
}

func (i *instances) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	i.asked[r.URL.Host]++
	down := i.down == r.URL.Host
	i.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	return i.fake.RoundTrip(r)
}

// A Client of several instances asks the owner of a key, and another instance while the owner
// does not answer.
func TestOwnersAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		urls := []string{"http://A:8080/", "http://b", "http://c:8080"}
		owners := rendezvous.New([]string{"http://a:8080", "http://b:80", "http://c:8080"}) // as instances name each other
		i := &instances{fake: newFake(), asked: map[string]int{}}
		c, err := client.New(client.Config{URLs: urls, HTTP: &http.Client{Transport: i}, Away: client.Deny})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		take := func(key string) {
			i.fake.mu.Lock()
			i.fake.tokens[key] = 1
			i.fake.mu.Unlock()
			if d, err := c.Take(context.Background(), key, 1); err != nil || !d.OK {
				t.Errorf("%s: %v, %v", key, d, err)
			}
		}
		for n := range 50 {
			key := fmt.Sprintf("key:%d", n)
			host := strings.TrimSuffix(strings.TrimPrefix(urls[owners.Owner(key)], "http://"), "/")
			i.asked = map[string]int{}
			if take(key); i.asked[host] != 1 || len(i.asked) != 1 {
				t.Errorf("%s, a key of %s: %v", key, host, i.asked)
			}
			i.down, i.asked = host, map[string]int{}
			take(key)
			if take(key); i.asked[host] != 1 || len(i.asked) != 2 {
				t.Errorf("%s, a key of %s, which is down: %v", key, host, i.asked)
			}
			i.down = ""
			time.Sleep(2 * time.Second)
		}
		// Asks for keys of several owners at the same time are in one request for each.
		i.asked, i.fake.slow = map[string]int{}, time.Millisecond
		var all sync.WaitGroup
		for n := range 60 {
			all.Go(func() { take(fmt.Sprintf("key:%d", n)) })
		}
		all.Wait()
		for host, n := range i.asked {
			if n > 3 {
				t.Errorf("%d requests to %s", n, host)
			}
		}
	})
}

func TestURLs(t *testing.T) {
	for _, tt := range []struct {
		cfg  client.Config
		want string
	}{
		{client.Config{URL: "http://a", URLs: []string{"http://b"}, Away: client.Deny}, "exclude each other"},
		{client.Config{URLs: []string{"http://b", "b:80"}, Away: client.Deny}, "URLs[1]"},
		{client.Config{Away: client.Deny}, "client: URL = "},
		{client.Config{URL: "127.0.0.1:8080", Away: client.Deny}, `client: URL = "127.0.0.1:8080": has no scheme, such as "http://127.0.0.1:8080"`},
		{client.Config{URL: "weir:8080", Away: client.Deny}, `such as "http://weir:8080"`},
	} {
		if _, err := client.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
