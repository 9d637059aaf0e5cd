package deploy_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A composition is the part of a Compose file that is used here.
type composition struct {
	Weir     service            `json:"x-weir"` // what both instances have
	Services map[string]service `json:"services"`
	Volumes  map[string]any     `json:"volumes"`
}

type service struct {
	Image, Restart string
	Build          struct{ Context, Dockerfile, Target string }
	Command        []string
	Ports, Volumes []string
	Environment    map[string]string
	Healthcheck    struct {
		Test              []string
		Interval, Timeout string
		Retries           int
	}
	DependsOn   map[string]struct{ Condition string } `json:"depends_on"`
	ReadOnly    bool                                  `json:"read_only"`
	CapDrop     []string                              `json:"cap_drop"`
	SecurityOpt []string                              `json:"security_opt"`
	MemLimit    string                                `json:"mem_limit"`
	Grace       string                                `json:"stop_grace_period"`
}

// Two instances share a store, which keeps its data, evicts nothing and has bounded memory.
func TestComposeWithStore(t *testing.T) {
	for _, engine := range []string{"redis", "valkey"} {
		text, err := os.ReadFile("compose-" + engine + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var c composition
		if err := yaml.UnmarshalStrict(text, &c); err != nil {
			t.Errorf("%s: %v", engine, err)
			continue
		}
		ports := map[string]bool{}
		for name, s := range c.Services {
			for _, p := range s.Ports {
				if ports[p[:strings.LastIndex(p, ":")]] || !strings.HasPrefix(p, "127.0.0.1:") {
					t.Errorf("%s: %s: port %s: want another one, on loopback", engine, name, p)
				}
				ports[p[:strings.LastIndex(p, ":")]] = true
			}
			for _, v := range s.Volumes {
				source, _, _ := strings.Cut(v, ":")
				_, missing := os.Stat(source)
				if _, named := c.Volumes[source]; !named && missing != nil {
					t.Errorf("%s: %s: no %s", engine, name, source)
				}
			}
		}
		for _, name := range []string{"weir-a", "weir-b"} {
			s := c.Services[name]
			if !slices.Contains(s.Command, "--store="+engine+"://store:6379") || s.DependsOn["store"].Condition != "service_healthy" || s.MemLimit == "" {
				t.Errorf("%s: %s: %+v: want the store, when it is healthy", engine, name, s)
			}
		}
		store := c.Services["store"]
		command := strings.Join(store.Command, " ")
		for _, want := range []string{engine + "-server ", "--appendonly yes", "--maxmemory-policy noeviction", "--maxmemory 256mb"} {
			if !strings.Contains(command, want) {
				t.Errorf("%s: %s: want %s", engine, command, want)
			}
		}
		if !slices.Equal(store.Healthcheck.Test, []string{"CMD", engine + "-cli", "ping"}) || len(store.Ports) > 0 || store.MemLimit != "512m" || !slices.Contains(store.Volumes, "store:/data") ||
			!regexp.MustCompile(`^\S+:\d+\.\d+$`).MatchString(store.Image) {
			t.Errorf("%s: %+v: want a health check, bounded memory, a volume, a version, and no port", engine, store)
		}
	}
}
