//go:build system

package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// capacityVariables are the variables that capacity/compose.yaml reads, with values with which an
// experiment is over in seconds: the origin is too slow, and the proxy's limit adapts.
var capacityVariables = map[string]string{
	"ORIGIN_WORKER": "3", "ORIGIN_WORKTIME": "200ms", "ORIGIN_QUEUE": "20",
	"CLIENT_WORKER": "10", "CLIENT_RPS": "30", "CLIENT_ORIGIN": "http://proxy:7000", "PROXY_LIMIT": "auto",
}

// binaries has the functions that build what the images of capacity/compose.yaml start.
var binaries = map[string]func() (string, error){"weir": binary, "weirlab": labBinary}

// interpolate replaces ${NAME:-default} as Compose does.
func interpolate(text string, variables map[string]string) string {
	return regexp.MustCompile(`\$\{(\w+):-([^}]*)\}`).ReplaceAllStringFunc(text, func(use string) string {
		name, byDefault, _ := strings.Cut(use[2:len(use)-1], ":-")
		if value := variables[name]; value != "" {
			return value
		}
		return byDefault
	})
}

// onLoopback returns a replacement of the addresses of the services of a Compose file by free
// ports on loopback.
func onLoopback(t *testing.T) *strings.Replacer {
	t.Helper()
	ports := freePorts(t, 5)
	return strings.NewReplacer(
		"origin:8000", ports[0], "proxy:7000", ports[1], "proxy:7001", ports[2], "client:9000", ports[3],
		"--listen=:8000", "--listen="+ports[0], "--listen=:7000", "--listen="+ports[1], "--admin=:7001", "--admin="+ports[2], "--metrics=:9000", "--metrics="+ports[3],
		"prometheus:9090", ports[4],
	)
}

// runAll starts commands, which end with the test. The first error of one that ends early fails it.
func runAll(t *testing.T, commands ...*exec.Cmd) {
	t.Helper()
	for _, cmd := range commands {
		log := new(strings.Builder)
		cmd.Stdout, cmd.Stderr = log, log
		must(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() {
			select {
			case err := <-ended:
				t.Errorf("%v ended: %v\n%s", cmd.Args, err, log)
				return
			default:
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				_ = cmd.Process.Kill()
				t.Errorf("%v does not end\n%s", cmd.Args, log)
			}
		})
	}
}

// A capacityBoard is the part of Grafana's model that the dashboard of the experiments uses.
type capacityBoard struct {
	UID, Title, Timezone, Refresh string
	Tags                          []string
	SchemaVersion, Version        int
	Editable                      bool
	Time                          struct{ From, To string }
	Annotations, Templating       struct{ List []struct{} }
	Links                         []struct{}
	Panels                        []struct {
		ID                       int
		Type, Title, Description string
		Datasource               boardSource
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct {
			RefID, Expr, LegendFormat string
			Datasource                boardSource
		}
		FieldConfig struct {
			Defaults struct {
				Unit   string
				Min    int
				Custom struct {
					DrawStyle, ShowPoints  string
					LineWidth, FillOpacity int
				}
			}
			Overrides []struct{}
		}
		Options struct {
			Legend struct {
				DisplayMode, Placement string
				Calcs                  []string
				ShowLegend             bool
			}
			Tooltip struct{ Mode, Sort string }
		}
	}
}

type boardSource struct{ Type, UID string }

// readBoard decodes the dashboard strictly.
func readBoard(t *testing.T) (b capacityBoard) {
	t.Helper()
	f, err := os.Open("capacity/dashboard.json")
	must(t, err)
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	must(t, d.Decode(&b))
	return b
}

// The processes of the Compose file run with its flags, the real Prometheus scrapes them by its
// file, and every query of the dashboard has a result.
func TestCapacity(t *testing.T) {
	c, here := readComposition(t, "capacity/compose.yaml"), onLoopback(t)
	var commands []*exec.Cmd
	used := ""
	for _, name := range []string{"origin", "proxy", "client"} {
		used += strings.Join(c.Services[name].Command, " ")
		var args []string
		for _, arg := range c.Services[name].Command {
			args = append(args, here.Replace(interpolate(arg, capacityVariables)))
		}
		path, err := binaries[c.Services[name].Image]()
		must(t, err)
		commands = append(commands, exec.Command(path, args...))
	}
	for name := range capacityVariables {
		if !strings.Contains(used, "${"+name+":-") {
			t.Errorf("compose.yaml does not use %s", name)
		}
	}
	dir, at := t.TempDir(), here.Replace("prometheus:9090")
	text, err := os.ReadFile("capacity/prometheus.yml")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(here.Replace(string(text))), 0o600))
	prometheus := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	runAll(t, append(commands, prometheus)...)
	board := readBoard(t)
	if len(board.Panels) != 4 {
		t.Errorf("%d panels: want 4", len(board.Panels))
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			awaitSeries(t, "http://"+at, target.Expr)
		}
	}
	awaitSeries(t, "http://"+at, `weir_load_requests_total{status="200"} > 0`)
}

// awaitSeries asks Prometheus until a query has a result that is a number.
func awaitSeries(t *testing.T, at, expr string) {
	t.Helper()
	var last string
	for range 400 {
		resp, err := http.Get(at + "/api/v1/query?query=" + url.QueryEscape(expr))
		if err == nil {
			var answer struct {
				Status, Error string
				Data          struct{ Result []struct{ Value [2]any } }
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			last = string(body)
			if err = json.Unmarshal(body, &answer); err == nil && len(answer.Data.Result) > 0 && answer.Data.Result[0].Value[1] != "NaN" {
				return
			}
			if answer.Status == "error" {
				break
			}
		} else {
			last = fmt.Sprint(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s: %s", expr, last)
}

// Without variables, the Compose file has the values of the first experiment; ports are on
// loopback, and all files that it mounts exist.
func TestCapacityComposition(t *testing.T) {
	c := readComposition(t, "capacity/compose.yaml")
	want := map[string]string{
		"origin": "weirlab origin --listen=:8000 --workers=7 --service-time=1s --queue=100",
		"proxy":  "weir proxy --origin=http://origin:8000 --listen=:7000 --admin=:7001 --limit=5 --timeout=2400ms --max-wait=200ms --abandoned-hold=10s",
		"client": "weirlab load http://origin:8000 --workers=10 --rate=5 --timeout=2500ms --duration=0s --metrics=:9000 --quiet --i-own-this-target",
	}
	for name, s := range c.Services {
		got := interpolate(strings.Join(s.Command, " "), nil)
		if s.Command != nil {
			got = s.Image + " " + got
		}
		if got != want[name] {
			t.Errorf("%s: %s: want %s", name, got, want[name])
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s: want loopback", name, p)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(filepath.Join("capacity", source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	readBoard(t)
}
