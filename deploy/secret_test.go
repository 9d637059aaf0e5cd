package deploy_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"helm.sh/helm/v4/pkg/engine"
)

// A cluster is one whose objects the templates can look up.
type cluster struct{ client dynamic.Interface }

func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.client.Resource(schema.FromAPIVersionAndKind(apiVersion, kind).GroupVersion().WithResource(strings.ToLower(kind) + "s")), true, nil
}

// The secret of the peers is random, and long; an upgrade keeps the one that is in the
// cluster.
func TestPeerSecret(t *testing.T) {
	secret := func(objects ...runtime.Object) string {
		t.Helper()
		client := fake.NewSimpleDynamicClient(clientscheme.Scheme, objects...)
		chart, all := chartValues(t, "shop", parse(t, `mode: peers`))
		texts, err := engine.RenderWithClientProvider(chart, all, cluster{client})
		if err != nil {
			t.Fatal(err)
		}
		s := decode(t, []string{texts["weir/templates/secret.yaml"]}).secrets[0]
		if s.Name != "shop-weir-peers" || s.Annotations["helm.sh/hook"] != "" {
			t.Errorf("%+v", s)
		}
		return string(s.Data["secret"])
	}
	first, second := secret(), secret()
	if len(first) < 32 || first == second {
		t.Errorf("secrets %q, %q: want two random ones", first, second)
	}
	kept := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "shop-weir-peers", Namespace: "limits"},
		Data:       map[string][]byte{"secret": []byte(first)},
	}
	if third := secret(kept); third != first {
		t.Errorf("secret %q after an upgrade: want %q", third, first)
	}
}
