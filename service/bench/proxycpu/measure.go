package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/weir-go/weir/service/bench/internal/process"
)

// A result holds the figures of one run.
type result struct {
	cost   time.Duration // CPU time for a request that was served
	rate   float64       // requests a second
	failed int           // requests that were not served
}

var (
	succeeded = regexp.MustCompile(`(\d+) succeeded, (\d+) failed`)
	statuses  = regexp.MustCompile(`status codes: (\d+) 2xx`)
	rates     = regexp.MustCompile(`([\d.]+) req/s`)
)

// measure puts a proxy under load for a time. On a busy machine, that time can pass before the
// first answer; then it tries again.
func (s setting) measure(p *process.Process, l load, d time.Duration) (r result, err error) {
	for range 10 {
		r, err = s.measureOnce(p, l, d)
		if r.rate > 0 || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return r, err
		}
	}
	return r, fmt.Errorf("no answers within %v, ten times", d)
}

// measureOnce is one try. Over HTTP/2, h2load does not always end.
func (s setting) measureOnce(p *process.Process, l load, d time.Duration) (r result, err error) {
	scheme, clients := "http://", strconv.Itoa(s.clients)
	if l.tls {
		scheme = "https://"
	}
	args := append([]string{"-t1", fmt.Sprintf("-D%dms", d.Milliseconds()), "--warm-up-time=0"}, l.args...)
	if len(l.args) > 0 {
		args = append(args, "-c"+clients)
	} else {
		args = append(args, "-c4", "-m"+strconv.Itoa(max(s.clients/4, 1)))
	}
	before, err := p.CPU()
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), d+10*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, "h2load", append(args, scheme+p.Addr+l.path)...).CombinedOutput()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		return r, fmt.Errorf("h2load: %w: %s", err, text)
	}
	after, err := p.CPU()
	if err != nil {
		return r, err
	}
	done, good, rate := succeeded.FindSubmatch(text), statuses.FindSubmatch(text), rates.FindSubmatch(text)
	if done == nil || good == nil || rate == nil {
		return r, fmt.Errorf("h2load says: %s", text)
	}
	n, _ := strconv.Atoi(string(good[1]))
	if r.failed, _ = strconv.Atoi(string(done[2])); r.failed > n/20 {
		return r, fmt.Errorf("requests failed: %s", text)
	}
	if n == 0 {
		return r, nil
	}
	r.rate, _ = strconv.ParseFloat(string(rate[1]), 64)
	r.cost = (after - before) / time.Duration(n)
	return r, nil
}
