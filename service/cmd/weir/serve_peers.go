package main

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/daemon"
	"github.com/weir-go/weir/service/internal/discover"
	"github.com/weir-go/weir/service/internal/inputfile"
)

// servePeers configures the other instances that share keys with this one.
type servePeers struct {
	PeerURLs       []string      `name:"peers" aliases:"instance-urls" short:"i" env:"WEIR_PEERS,WEIR_INSTANCE_URLS,INSTANCE_URLS" placeholder:"URL" help:"Share keys with these instances of weir serve, without a store: each key has one owner, which decides. All instances need the same list: the URL of each (this one may be among them), dns+http://NAME:PORT for all addresses of a name, or kubernetes://SERVICE:PORT for the pods of a Service. List three or more: of two, one that has lost the other decides by half of each limit. It changes the default of --listen to :8080."`
	Self           string        `needs:"peers" placeholder:"URL" help:"With --peers: the URL (in Kubernetes, the pod) that is this instance. If empty, it is found."`
	PeerSecretFile string        `needs:"peers" placeholder:"FILE" help:"With --peers: a file with a secret of 16 bytes or more, the same for all. Without one, every client may act as a peer."`
	PeerSecret     string        `hidden:"" env:"WEIR_PEER_SECRET" help:"The secret itself, for environments without files."`
	PeerAway       config.Away   `needs:"peers" default:"share" enum:"deny,allow,share" placeholder:"HOW" help:"With --peers: how to decide while the owner of a key cannot be asked, for rules that do not say (away): share divides the limits by the number of instances; allow, or deny (${default})."`
	PeerTimeout    time.Duration `needs:"peers" least:"1ms" default:"500ms" placeholder:"TIME" help:"With --peers: how long a decision of another instance may take. After that, this instance decides by its share (${default})."`
	PeerCA         string        `needs:"peers" name:"peer-ca" placeholder:"FILE" help:"With --peers at https: the authorities of their certificates; otherwise, those of the system."`
}

// minSecret is the least length of a secret, in bytes.
const minSecret = 16

// checkPeers checks the flags about peers, together with others.
func (c *serveCmd) checkPeers() error {
	switch {
	case len(c.PeerURLs) == 0:
	case c.StoreURL != "":
		return cli.Usagef("--peers and --store exclude each other: either the owner of a key decides, or the store")
	case c.UpstreamURL != "":
		return cli.Usagef("--peers and --upstream exclude each other: a leaf decides by what its upstream assigns, and no peer owns its keys")
	case c.PeerSecretFile != "" && c.PeerSecret != "":
		return cli.Usagef("--peer-secret-file and $WEIR_PEER_SECRET exclude each other: give one")
	case c.Tokens != "" && c.PeerSecretFile == "" && c.PeerSecret == "" && c.TLS.ClientCA == "":
		return cli.Usagef("--peers with --tokens needs --peer-secret-file or --client-ca: without them, clients could act as peers, which need no token")
	}
	return nil
}

// peers returns the peers; nil if there are none.
func (c *servePeers) peers() (*daemon.Peers, error) {
	if len(c.PeerURLs) == 0 {
		return nil, nil
	}
	members, err := discover.Parse(c.PeerURLs, discover.Config{})
	if err != nil {
		return nil, cli.Usagef("--peers: %v", err)
	}
	self := c.Self
	if u, err := url.Parse(c.Self); err == nil && u.Host != "" {
		self = discover.Normal(u)
	}
	if known := members.Fixed(); self != "" && known != nil && !slices.Contains(known, self) {
		return nil, cli.Usagef("--self=%s is none of --peers, which all instances need the same: %s", c.Self, strings.Join(known, ", "))
	}
	secret := []byte(c.PeerSecret)
	if c.PeerSecretFile != "" {
		if secret, err = inputfile.Read(c.PeerSecretFile, 1<<20); err != nil {
			return nil, cli.Usagef("--peer-secret-file: %v", err)
		}
	}
	if secret = bytes.TrimSpace(secret); len(secret) < minSecret && (len(secret) > 0 || c.PeerSecretFile != "") {
		return nil, cli.Usagef("--peer-secret-file: the secret has %d bytes: must be at least %d", len(secret), minSecret)
	}
	return &daemon.Peers{Members: members, Self: self, Secret: secret, Away: c.PeerAway, Timeout: c.PeerTimeout, CA: c.PeerCA}, nil
}
