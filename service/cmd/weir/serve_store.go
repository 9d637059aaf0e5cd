package main

import (
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/daemon"
	"github.com/weir-go/weir/service/internal/redisstore"
	"github.com/weir-go/weir/service/internal/server"
)

// serveStore configures the store of shared limits.
type serveStore struct {
	StoreURL      string        `name:"store" env:"WEIR_STORE" placeholder:"URL" help:"Share the limits with other instances in Redis or Valkey: redis://user:password@host:6379/0, rediss:// with TLS; ?master_name=NAME for Sentinels, ?cluster=true for a Cluster, with further addresses as &addr=host:port. Set it in $WEIR_STORE if it has a password."`
	StoreTimeout  time.Duration `needs:"store" least:"1ms" default:"50ms" placeholder:"TIME" help:"How long a decision may take in the store. After that, the instance decides by itself (${default})."`
	StoreAway     config.Away   `needs:"store" default:"share" enum:"deny,allow,share" placeholder:"HOW" help:"How to decide while the store does not answer, for rules that do not say (away): share divides the limits by the number of instances; allow, or deny (${default})."`
	StoreKnown    time.Duration `needs:"store" least:"0s" default:"10s" placeholder:"TIME" help:"Before that: for how long after the store's last answer to decide by what it has told (${default})."`
	StoreLeaf     bool          `needs:"store" help:"Decide by parts of the limits that are assigned in the store, without a round trip for each decision. Rules of less than ten tokens a second still ask the store."`
	StorePrefix   string        `needs:"store" default:"weir:" placeholder:"TEXT" help:"The beginning of all keys in the store. Instances with the same prefix share their limits (${default})."`
	StoreRequired bool          `needs:"store" help:"Not ready until the store has answered once, so that an instance that cannot use it, such as with a wrong password, gets no requests. If the store is away later, the instance stays ready."`
	Instances     int           `needs:"store" least:"0" default:"0" placeholder:"N" help:"The number of instances that share the store; 0: they are counted there (${default})."`
}

// connect returns the store; nil if there is none.
func (c *serveStore) connect() (*daemon.Store, error) {
	if c.StoreURL == "" {
		return nil, nil
	}
	client, err := openStore(c.StoreURL)
	if err != nil {
		return nil, err
	}
	known := c.StoreKnown
	if known == 0 {
		known = -1
	}
	return &daemon.Store{Client: client, Leaf: c.StoreLeaf, Required: c.StoreRequired, Config: server.StoreConfig{
		Link: client.Link(c.StoreTimeout), Prefix: c.StorePrefix, Away: c.StoreAway, Known: known, Instances: c.Instances,
	}}, nil
}

func openStore(url string) (*redisstore.Client, error) {
	client, err := redisstore.Open(url)
	if err != nil {
		return nil, cli.Usagef("--store: %v", err)
	}
	return client, nil
}
