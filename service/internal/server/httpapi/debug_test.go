package httpapi_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/httpapi"
)

func TestDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := 400
		rule := allKeys(2, s, config.Fixed)
		rule.Queue = &queue
		site := newSite(t, httpapi.Config{}, rule)
		for _, key := range []string{"y", "x", "x", "x", "z%22/"[:4]} {
			site.ask("POST", "/rate/"+key, "")
		}
		site.ask("GET", "/rate/only-looked-at?n=0", "")
		go site.ask("POST", "/rate/x?canWait=true", "")
		synctest.Wait()
		instance := func(key string, approved, denied, waiting int) string {
			return fmt.Sprintf(`{"Key":"%s","Config":{"WindowMillis":1000,"MaxRequestsPerWindow":2,"MaxRequestsInQueue":400},`+
				`"NumApprovedThisWindow":%d,"NumDeniedThisWindow":%d,"NumWaiting":%d,"Found":true}`, key, approved, denied, waiting)
		}
		for url, want := range map[string]string{
			"/debug/x":              instance("x", 2, 1, 1),
			"/debug/%20x":           instance("x", 2, 1, 1),
			"/debug/only-looked-at": `{"Key":"only-looked-at","Found":false}`,
			"/debug/un%22known":     `{"Key":"un\"known","Found":false}`,
			"/debug":                `{"Instances":{"x":` + instance("x", 2, 1, 1) + `,"y":` + instance("y", 1, 0, 0) + `,"z\"":` + instance(`z\"`, 1, 0, 0) + `}}`,
			"/debug/":               `{"Instances":{"x":` + instance("x", 2, 1, 1) + `,"y":` + instance("y", 1, 0, 0) + `,"z\"":` + instance(`z\"`, 1, 0, 0) + `}}`,
		} {
			if a := site.ask("GET", url, ""); a.status != 200 || a.body != want+"\n" {
				t.Errorf("%s: %d\n%s\nwant\n%s", url, a.status, a.body, want)
			}
			site.ask("HEAD", url, "")
		}
		time.Sleep(3 * s)
		for url, want := range map[string]string{"/debug/x": `{"Key":"x","Found":false}`, "/debug": `{"Instances":{}}`} {
			if a := site.ask("GET", url, ""); a.status != 200 || a.body != want+"\n" {
				t.Errorf("%s, after some windows: %d %s: want %s", url, a.status, a.body, want)
			}
		}
	})
}

// However many keys there are, the answer is bounded, and JSON.
func TestDebugOfManyKeys(t *testing.T) {
	site := newSite(t, httpapi.Config{}, allKeys(2, time.Hour, ""))
	for i := range 3 {
		for k := range 10_000 {
			site.ServeHTTP(&kept{header: map[string][]string{}}, newRequest("POST", fmt.Sprint("/rate/", i, "-", k), ""))
		}
	}
	a := site.ask("GET", "/debug", "")
	if n := len(a.json["Instances"].(map[string]any)); n < 9_000 || n > 10_000 {
		t.Errorf("%d instances: want 10000, or a few less", n)
	}
}
