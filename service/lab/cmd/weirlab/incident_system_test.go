//go:build system && !race

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

const ms = time.Millisecond

// Incidents of services that real callers ask through a real proxy.
var scenes = []*scene{
	{
		cause: "slow dependency", suffers: []string{"--limit", "10000"}, pods: 1, workers: 20, queue: 300,
		routes:  map[string]work{"orders": {own: 10 * ms, dependency: 40 * ms}, "catalog": {own: 15 * ms}},
		streams: []stream{{path: "/orders/{n}", rate: "90..160@12s,160..100@12s,120"}, {path: "/catalog", rate: "20"}},
		happens: func(pods []*pod) { pods[0].slower.Store(int64(200 * ms)) },
		left:    20, slower: 200 * ms,
	},
	{
		cause: "lost workers", suffers: []string{"--limit", "80"}, pods: 1, workers: 16, queue: 300,
		routes:  map[string]work{"search": {own: 60 * ms}},
		streams: []stream{{path: "/search", rate: "100..170@16s,120@4s,150"}},
		happens: func(pods []*pod) { pods[0].workers.SetAlgorithm(limit.Fixed(5)) },
		left:    5,
	},
	{
		cause: "retry storm", suffers: []string{"--limit", "10000"}, pods: 1, workers: 10, queue: 400,
		routes:  map[string]work{"pay": {own: 50 * ms}},
		streams: []stream{{path: "/pay", rate: "110..150@20s,130"}},
		retries: 3,
		happens: func(pods []*pod) { pods[0].stalled.Store(time.Now().Add(stall).UnixNano()) },
		left:    10, nothingServed: stall,
	},
	{
		cause: "bad origin", suffers: []string{"--limit", "200"}, pods: 3, workers: 8, queue: 300,
		routes:  map[string]work{"users": {own: 60 * ms}},
		streams: []stream{{path: "/users/{n}", rate: "140..210@12s,180..210@12s,200"}},
		happens: func(pods []*pod) { pods[1].fails.Store(math.Float64bits(0.7)) },
		left:    16,
	},
	{
		cause: "heavy route", suffers: []string{"--limit", "100"}, pods: 1, workers: 12, queue: 300,
		routes:  map[string]work{"items": {own: 25 * ms}, "export": {own: 500 * ms}},
		streams: []stream{{path: "/items/{n}", rate: "130..220@16s,170"}, {path: "/export/{n}", rate: "30", new: true}},
		left:    12,
	},
}

// stall is how long the service of the retry storm stands still. The callers go on with the storm by themselves.
const stall = 3 * time.Second

var keep = flag.String("keep", "", "play incidents of 100 s, and write the recordings and truth.json into this directory")

// A truth is what is known of an incident without its recording.
type truth struct {
	Number  int       `json:"number"`
	Cause   string    `json:"cause"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds_from_first_request"`
	Offered float64   `json:"offered_per_second"`
	Served  float64   `json:"served_per_second"`
	Could   float64   `json:"could_have_been_served_per_second"`
}
