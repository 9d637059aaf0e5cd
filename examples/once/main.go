// Once makes an expensive result once in a whole fleet: a lease of weir serve lets one process work
// on a key, and the others take its result from where all of them can read it.
//
//	echo 'rules: [{name: once, glob: "once:*", concurrency: {limit: 1, ttl: 10s}}]' > /tmp/rules.yaml
//	go run -C service ./cmd/weir serve --rules /tmp/rules.yaml
//
// and, in two other terminals at once:
//
//	go run -C examples ./once -dir /tmp/results report-7
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8080", "where weir serve listens")
	dir := flag.String("dir", os.TempDir(), "where all processes keep results: here a directory; else a database or an object store")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := client.New(client.Config{URL: *url, Away: client.Deny})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	f := fleet{leases: c, results: files(*dir), call: expensive}
	for _, key := range flag.Args() {
		result, err := f.get(ctx, key)
		if err != nil {
			log.Fatalf("%s: %v", key, err)
		}
		fmt.Println(result)
	}
}

// A store keeps results where all processes can read them.
type store interface {
	load(ctx context.Context, key string) (result string, ok bool, err error)
	// save keeps a result, unless one with a higher token is there.
	save(ctx context.Context, key, result string, token uint64) error
}

// A fleet is this process as one of a fleet that makes each result once.
type fleet struct {
	leases  *client.Client
	results store
	call    func(ctx context.Context, key string) (string, error)
}

// get returns the result of a key. If there is none, one process of the fleet makes it, and the
// others wait for that.
func (f *fleet) get(ctx context.Context, key string) (string, error) {
	if result, ok, err := f.results.load(ctx, key); ok || err != nil {
		return result, err
	}
	held, err := f.leases.Hold(ctx, "once:"+key, 1) // waits while another process works on it
	if err != nil {
		return "", err
	}
	outcome := weir.Ignored
	defer func() { held.Release(outcome) }()
	if result, ok, err := f.results.load(held, key); ok || err != nil { // the other process has made it
		return result, err
	}
	result, err := f.call(held, key) // its context ends when the lease is lost: then another process begins
	if err == nil {
		err = f.results.save(held, key, result, held.Token)
	}
	if cause := context.Cause(held); errors.Is(cause, client.ErrLost) {
		err = cause
	}
	outcome = weir.OutcomeOf(err)
	return result, err
}

// expensive takes two seconds.
func expensive(ctx context.Context, key string) (string, error) {
	log.Printf("making %s", key)
	select {
	case <-time.After(2 * time.Second):
		return key + " made at " + time.Now().Format(time.TimeOnly), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// files is a store in a directory.
type files string

func (dir files) load(_ context.Context, key string) (string, bool, error) {
	text, err := os.ReadFile(dir.name(key))
	if errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	}
	return string(text), err == nil, err
}

// save needs no token: a result is never replaced. A store that replaces results must refuse a
// lower token than it has seen.
func (dir files) save(_ context.Context, key, result string, token uint64) error {
	draft := fmt.Sprintf("%s.%d", dir.name(key), token)
	if err := os.WriteFile(draft, []byte(result), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, dir.name(key)) // no process reads a half of it
}

func (dir files) name(key string) string { return filepath.Join(string(dir), filepath.Base(key)) }
