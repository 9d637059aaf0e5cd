package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	patience = 5 * time.Second // of a legitimate client
	workers  = 64              // requests of legitimate clients at a time
	users    = 1000
)

var (
	errNotSent = errors.New("not sent: all connections were busy")
	errLate    = errors.New("late")
)

// legitimate are clients that share a pool of connections.
type legitimate struct {
	url    string
	client *http.Client
}

func newLegitimate(url string, http2 bool) *legitimate {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	return &legitimate{url, &http.Client{
		Timeout:   patience,
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: workers, Protocols: protocols},
	}}
}

// ask sends the ith request: a decision, every tenth a batch, every twentieth a lease
// that is renewed and returned.
func (l *legitimate) ask(i int) error {
	key := fmt.Sprint("user:", i%users)
	switch {
	case i%20 == 0:
		return l.lease(i)
	case i%10 == 0:
		_, err := l.do("POST", "/rate", `[{"key":"`+key+`"},{"key":"user:0"}]`)
		return err
	}
	_, err := l.do("POST", "/rate/"+key, "")
	return err
}

func (l *legitimate) lease(i int) error {
	path := fmt.Sprint("/lease/job:", i%users)
	body, err := l.do("POST", path, "")
	if err != nil {
		return err
	}
	var held struct {
		ID string `json:"lease_id"`
	}
	if err := json.Unmarshal(body, &held); err != nil {
		return err
	}
	if _, err := l.do("POST", path+"/"+held.ID, ""); err != nil {
		return err
	}
	_, err = l.do("DELETE", path+"/"+held.ID, "")
	return err
}

func (l *legitimate) do(method, path, body string) ([]byte, error) {
	r, err := http.NewRequest(method, l.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := l.client.Do(r)
	if err != nil {
		if net, ok := errors.AsType[net.Error](err); ok && net.Timeout() {
			return nil, errors.New("time-out")
		}
		return nil, errors.New("connection failed")
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return answer, err
}

// capacity returns how many requests a second the server answers without an attack,
// while clients and server share the machine.
func (l *legitimate) capacity() int {
	const d = 2 * time.Second
	var n atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for range workers / 4 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if l.ask(int(n.Add(1))) != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	return int(float64(n.Load()) / d.Seconds())
}

// send sends requests at r.rate until ctx ends. A request that finds all workers busy
// waits, and its delay counts. One that waits longer than a client's patience is not
// sent, and has failed.
func (l *legitimate) send(ctx context.Context, r *result) {
	var mu sync.Mutex // guards r
	var wg sync.WaitGroup
	r.failures = map[string]int{}
	due := make(chan time.Time, r.rate*2*int(patience.Seconds()))
	for w := range workers {
		wg.Go(func() {
			own := result{failures: map[string]int{}}
			for i := w; ; i += workers {
				at, ok := <-due
				if !ok {
					break
				}
				own.sent++
				err := errNotSent
				if time.Since(at) < patience {
					err = l.ask(i)
				}
				took := time.Since(at)
				if err == nil && took > patience {
					err = errLate
				}
				if err != nil {
					own.failures[err.Error()]++
					continue
				}
				own.ok++
				own.delays = append(own.delays, took)
			}
			mu.Lock()
			defer mu.Unlock()
			r.add(own)
		})
	}
	began, sent, lost := time.Now(), 0, 0
	for ctx.Err() == nil {
		for now := time.Now(); sent < int(now.Sub(began).Seconds()*float64(r.rate)); sent++ {
			select {
			case due <- began.Add(time.Duration(sent) * time.Second / time.Duration(r.rate)):
			default:
				lost++
			}
		}
		time.Sleep(time.Millisecond)
	}
	close(due)
	wg.Wait()
	if lost > 0 {
		r.sent += lost
		r.failures[errNotSent.Error()] += lost
	}
}
