// Fleet is one of several processes that share one limit: each does as much work
// as it may, and together they do ten a second, however many there are.
//
//	echo 'rules: [{name: mail, key: mail, rate: 10/s}]' > /tmp/rules.yaml
//	go run -C service ./cmd/weir serve --rules /tmp/rules.yaml
//
// and, in two other terminals:
//
//	go run -C examples ./fleet -instances 2
//
// Stop one of them, and the other has it all. Stop weir serve, and each goes on
// with its share: five a second. With -leaf, each decides by a part of the limit that
// weir serve assigns to it, without a request for each mail.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8080", "where weir serve listens")
	instances := flag.Int("instances", 1, "how many processes share the limit: each has its part while weir serve is away")
	leaf := flag.Bool("leaf", false, "decide by an assigned part of the limit, without a request for each mail")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg := client.Config{URL: *url, Away: client.Local, Instances: *instances, OnAway: func(err error) {
		if err != nil {
			log.Print("on my own: ", err)
		} else {
			log.Print("weir serve is back")
		}
	}}
	if *leaf {
		cfg.Leaf = new(client.LeafConfig)
	}
	c, err := client.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var sent atomic.Int64
	go report(&sent)
	if err := work(ctx, c.For("mail"), func() { sent.Add(1) }); err != nil {
		log.Print(err)
	}
}

// work sends one mail after the other, each when its turn comes, until ctx ends.
func work(ctx context.Context, turns weir.Limiter, send func()) error {
	for {
		err := weir.Do(ctx, turns, func(context.Context) error {
			send()
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, weir.ErrRejected): // the line is too long
			time.Sleep(100 * time.Millisecond)
		case err != nil:
			return err
		}
	}
}

// report prints, once a second, how many mails were sent in it.
func report(sent *atomic.Int64) {
	for range time.Tick(time.Second) {
		fmt.Println(sent.Swap(0), "sent")
	}
}
