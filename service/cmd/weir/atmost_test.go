package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const atMostRules = `rules: [{name: pages, glob: "page-*", rate: 5/h}, {name: all, glob: "*", rate: 8/h}]`

// expectParts asks a server for parts of the limits of ten keys.
func expectParts(t *testing.T, url string) {
	t.Helper()
	var requests, want []string
	for i := range 10 {
		requests = append(requests, fmt.Sprintf(`{"key":"page-%d","n":3,"at_most":true},{"key":"page-%d","n":9,"at_most":true},{"key":"page-%d","n":9,"at_most":true}`, i, i, i))
		want = append(want, "3", "2")
	}
	resp, err := http.Post(url+"/rate", "application/json", strings.NewReader("["+strings.Join(requests, ",")+"]"))
	fatal(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	fatal(t, err)
	body := string(all)
	var got []string
	for _, part := range strings.Split(body, `"granted":`)[1:] {
		got = append(got, part[:strings.IndexAny(part, ",}")])
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || strings.Count(body, `"ok":false,"reason":"over_rate"`) != 10 {
		t.Errorf("granted %v, want %v: %d %s", got, want, resp.StatusCode, body)
	}
}

// Requests with at_most get parts, whichever node they ask.
func TestAtMostInFleets(t *testing.T) {
	rules := file(t, "rules.yaml", atMostRules)
	t.Run("alone", func(t *testing.T) { expectParts(t, serving(t, "--rules", rules).public) })
	t.Run("upstream", func(t *testing.T) {
		owner := serving(t, "--rules", rules)
		zone := serving(t, "--rules", rules, "--upstream", owner.public, "--upstream-timeout", "5s")
		expectParts(t, zone.public)
		if got := owner.statuses("/rate/page-3", 1); fmt.Sprint(got) != "[429]" {
			t.Errorf("%v: want that the owner counts what the zone has given", got)
		}
	})
}
