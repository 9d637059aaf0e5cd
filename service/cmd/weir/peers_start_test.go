//go:build system

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A listed member that is another program is logged with what it answers, and so is its status. An instance
// without a peer that lives hands nothing over, and does not say that it has.
func TestPeerOfAnotherKind(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "other/1.0")
		http.Error(w, "there is no such page", http.StatusNotFound)
	}))
	t.Cleanup(other.Close)
	f := newPeerFleet(t)
	f.urls[1] = other.URL
	f.start(0)
	f.start(2)
	f.untilStatuses("live dead live", 0, 2)
	p := f.processes[0]
	const why = `it answers status 404 to GET /-/peer: \"there is no such page\" (Server: \"other/1.0\"): it is no weir serve with --peers`
	p.until(`msg="a peer cannot be used" peer=` + other.URL + ` error="` + why)
	if a := ask(t, http.DefaultClient, "GET", p.admin+"/-/status"); !strings.Contains(a.body, why) {
		t.Errorf("%s", a.body)
	}
	f.processes[2].kill()
	f.untilStatuses("live cut cut, no quorum", 0)
	p.end()
	if p.logged("have moved to its peers") > 0 {
		t.Error("it has logged that keys have moved")
	}
}

// A list with one URL is a fleet of one.
func TestPeersOfOne(t *testing.T) {
	t.Parallel()
	f := newPeerFleet(t)
	f.urls = f.urls[:1]
	f.start(0)
	f.processes[0].until("the fleet has one member, which owns all keys")
	f.untilStatuses("live", 0)
	f.processes[0].end()
	for _, text := range []string{"have moved to its peers", "status=cut"} {
		if f.processes[0].logged(text) > 0 {
			t.Errorf("it has logged %q", text)
		}
	}
}
