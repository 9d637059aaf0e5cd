// Serve measures what a decision of weir serve costs over HTTP: CPU time of the
// server for each request, under wrk (HTTP/1.1) and h2load (HTTP/2), beside that
// of net/http with a handler that answers as much; and what a million keys weigh.
// The servers take turns, so that a noisy machine is noisy for both.
//
//	make build && cd bench && go run ./serve [-weir ../bin/weir] [-rounds n] [-seconds n]
//
// GoCC cannot be fetched as a module, so its figures come from another
// measurement, as multiples of the same floor: there it was built from its sources,
// allowed all (-m 1000000), and took turns with the floor.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/bench/internal/stat"
)

// A load is a way to send requests, and what GoCC took for one under it.
type load struct {
	name     string
	args     []string // of the command; URL stands for that of the server
	batch    int      // decisions in a request
	gocc     float64  // µs, where it was measured
	gocFloor float64  // µs that the floor took then
}

const batchSize = 100

func loads(seconds int, batch string) []load {
	d := fmt.Sprint(seconds)
	h2 := func(args ...string) []string { return append([]string{"h2load", "-t1", "-D", d}, args...) }
	return []load{
		{"HTTP/1.1, 100 connections", []string{"wrk", "-t2", "-c100", "-d" + d + "s", "URL/rate/x"}, 1, 56.1, 37.5},
		{"HTTP/2, 100 connections, 1 stream", h2("-c100", "-m1", "URL/rate/x"), 1, 116.2, 86.3},
		{"HTTP/2, 10 connections, 100 streams", h2("-c10", "-m100", "URL/rate/x"), 1, 83.0, 61.5},
		{"HTTP/2, batches of 100", h2("-c10", "-m1", "-d", batch, "-H", "content-type: application/json", "URL/rate"), batchSize, 0, 0},
	}
}

func main() {
	floor := flag.String("floor", "", "serve the floor at this address; not for people")
	weir := flag.String("weir", "../bin/weir", "the binary to measure")
	rounds := flag.Int("rounds", 3, "turns of each server under each load")
	seconds := flag.Int("seconds", 3, "how long a turn takes")
	flag.Parse()
	if *floor != "" {
		log.Fatal(serveFloor(*floor))
	}
	if *rounds < 1 || *seconds < 1 {
		log.Fatal("serve: want at least one round of a second")
	}
	if err := measure(*weir, *rounds, *seconds); err != nil {
		log.Fatal("serve: ", err)
	}
}

// serveFloor reads and answers as much as weir serve does, without deciding
// anything.
func serveFloor(addr string) error {
	one := []byte(`{"request_id":"00000000-0000-8000-8000-000000000000"}` + "\n")
	many := []byte(`{"ok":true,"results":[` + strings.Repeat(`{"ok":true,"remaining":999999999},`, batchSize) + "]}\n")
	srv := &http.Server{Addr: addr, Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = []string{"application/json"}
		if r.Method != http.MethodPost {
			w.Write(one)
			return
		}
		io.Copy(io.Discard, r.Body)
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(many))}
		w.Write(many)
	})}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv.ListenAndServe()
}

func measure(weir string, rounds, seconds int) error {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	batch := filepath.Join(dir, "batch.json")
	if err := os.WriteFile(batch, requests(0, batchSize), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	floor, err := start(self, "-floor")
	if err != nil {
		return err
	}
	defer floor.stop()
	decides, err := startWeir(weir, "--max-requests", "1000000000")
	if err != nil {
		return err
	}
	defer decides.stop()

	fmt.Printf("%-38s %8s %8s %8s   %s\n", "CPU of the server, µs a request", "net/http", "weir", "ratio", "GoCC's ratio")
	for _, l := range loads(seconds, batch) {
		var spent [2][]float64
		for range rounds {
			for i, s := range []*process{floor, decides} {
				us, err := l.on(s)
				if err != nil {
					return err
				}
				spent[i] = append(spent[i], us)
			}
		}
		f, w := stat.Median(spent[0]), stat.Median(spent[1])
		fmt.Printf("%-38s %8.1f %8.1f %8.2f   ", l.name, f, w, w/f)
		if n := float64(l.batch); n > 1 {
			fmt.Printf("a decision: %.2f µs, net/http's share of it %.2f\n", w/n, f/n)
		} else {
			fmt.Printf("%.2f: weir takes %.2f of GoCC's time\n", l.gocc/l.gocFloor, w/f/(l.gocc/l.gocFloor))
		}
	}
	return weigh(weir)
}

// requests is a batch of n keys.
func requests(from, n int) []byte {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(`{"key":"user-%07d"}`, from+i)
	}
	return []byte(`{"requests":[` + strings.Join(keys, ",") + "]}")
}

func startWeir(path string, args ...string) (*process, error) {
	return start(path, slices.Concat([]string{"serve", "--admin", "127.0.0.1:0", "--log-level", "error"}, args, []string{"--listen"})...)
}

// done finds the number of requests that wrk and h2load say.
var done = regexp.MustCompile(`(\d+) requests in |, (\d+) succeeded`)

// on returns the CPU time for a request under the load, in µs.
func (l load) on(s *process) (float64, error) {
	args := slices.Clone(l.args)
	for i := range args {
		args[i] = strings.Replace(args[i], "URL", "http://"+s.addr, 1)
	}
	return s.cost(func() (n int, err error) {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("%v: %w\n%s", args, err, out)
		}
		if m := done.FindSubmatch(out); m != nil {
			n, _ = strconv.Atoi(string(m[1]) + string(m[2]))
		}
		if n == 0 {
			return 0, fmt.Errorf("%v: no number of requests, or none\n%s", args, out)
		}
		return n, nil
	})
}

// weigh asks for a million keys, of windows and of token buckets.
func weigh(weir string) error {
	for _, algorithm := range []string{"fixed", "gcra"} {
		s, err := startWeir(weir, "--window-millis", "3600000", "--algorithm", algorithm)
		if err != nil {
			return err
		}
		err = fill("http://"+s.addr+"/rate", 1_000_000)
		bytes, residentErr := s.resident()
		s.stop()
		if err := errors.Join(err, residentErr); err != nil {
			return err
		}
		fmt.Printf("a million keys, %-6s %d MiB resident\n", algorithm+":", bytes>>20)
	}
	return nil
}

// fill asks for keys, in batches.
func fill(url string, keys int) error {
	const at = 10_000
	for from := 0; from < keys; from += at {
		resp, err := http.Post(url, "application/json", bytes.NewReader(requests(from, at)))
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var answer struct {
			OK bool `json:"ok"`
		}
		if err := errors.Join(err, json.Unmarshal(body, &answer)); err != nil || !answer.OK {
			return fmt.Errorf("%s: %.200s: %w", resp.Status, body, err)
		}
	}
	return nil
}
