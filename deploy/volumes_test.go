package deploy_test

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Every volume exists and is mounted, as a whole; the files that flags name are on one.
func (c checker) checkVolumes(w *workload) {
	volumes := map[string]bool{}
	for _, v := range w.pod.Spec.Volumes {
		volumes[v.Name] = true
		switch {
		case v.ConfigMap != nil && !given(v.ConfigMap.Name) && !slices.ContainsFunc(c.configMaps, hasName[*corev1.ConfigMap](v.ConfigMap.Name)):
			c.fault("no ConfigMap %s", v.ConfigMap.Name)
		case v.Secret != nil && !c.outside(v.Secret.SecretName) && !slices.ContainsFunc(c.secrets, hasName[*corev1.Secret](v.Secret.SecretName)):
			c.fault("no Secret %s", v.Secret.SecretName)
		case v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o400):
			c.fault("Secret %s: everybody in the pod may read it", v.Secret.SecretName)
		case v.PersistentVolumeClaim != nil && !slices.ContainsFunc(c.claims, hasName[*corev1.PersistentVolumeClaim](v.PersistentVolumeClaim.ClaimName)):
			c.fault("no PersistentVolumeClaim %s", v.PersistentVolumeClaim.ClaimName)
		}
	}
	if w.set != nil {
		for _, claim := range w.set.Spec.VolumeClaimTemplates {
			volumes[claim.Name] = true
		}
	}
	mounted := map[string]corev1.VolumeMount{}
	for _, m := range w.container().VolumeMounts {
		if !volumes[m.Name] || m.SubPath != "" {
			c.fault("%+v: no such volume, or a part of one, of which changes are not seen", m)
		}
		mounted[m.Name] = m
		delete(volumes, m.Name)
	}
	if len(volumes) > 0 {
		c.fault("%v: not mounted", volumes)
	}
	for flag, volume := range map[string]string{"--rules": "rules", "--state": "state", "--tokens": "tokens", "--tls-cert": "tls", "--tls-key": "tls", "--client-ca": "tls", "--tls-client-ca": "tls", "--peer-ca": "tls",
		"--admin-tokens": "admin", "--peer-secret-file": "peers", "--upstream-token-file": "upstream"} {
		if path := w.flag(flag); path != "" && !under(path, mounted[volume].MountPath) {
			c.fault("%s = %s: not on the volume %s", flag, path, volume)
		}
	}
	if state := mounted["state"]; w.flag("--state") != "" && state.ReadOnly || w.flag("--state") == "" && state.Name != "" {
		c.fault("--state = %q on %+v", w.flag("--state"), state)
	}
}

// under tells if a path is a directory, or a file in it.
func under(path, dir string) bool {
	return dir != "" && (path == dir || strings.HasPrefix(path, dir+"/"))
}

// Every variable of a Secret exists, and flags use only variables that exist.
func (c checker) checkEnvironment(w *workload) {
	names := map[string]bool{}
	for _, e := range w.container().Env {
		if names[e.Name] {
			c.fault("%s is there twice", e.Name)
		}
		names[e.Name] = true
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			continue
		}
		ref := e.ValueFrom.SecretKeyRef
		c.checkSecretKey(ref.Name, ref.Key)
	}
	if names["WEIR_STORE"] != (c.mode == "store") {
		c.fault("WEIR_STORE in mode %s: %v", c.mode, names["WEIR_STORE"])
	}
	if (w.flag("--upstream") != "") != (c.mode == "leaf") || (w.flag("--peers") != "") != (c.mode == "peers") ||
		(w.flag("--peer-secret-file") != "") != (c.mode == "peers") || (w.flag("--origin") != "") != (c.mode == "proxy") {
		c.fault("flags %v in mode %s", w.container().Args, c.mode)
	}
	if leaves := strconv.Itoa(c.pods()); c.mode == "leaf" && w.flag("--upstream-leaves") != leaves {
		c.fault("--upstream-leaves = %s: want %s", w.flag("--upstream-leaves"), leaves)
	}
	for _, arg := range w.container().Args {
		if _, after, ok := strings.Cut(arg, "$("); ok {
			if name, _, _ := strings.Cut(after, ")"); !names[name] {
				c.fault("%s: no variable %s", arg, name)
			}
		}
	}
}

// checkSecretKey reports a key that a Secret of the chart does not have.
func (c checker) checkSecretKey(name, key string) {
	i := slices.IndexFunc(c.secrets, hasName[*corev1.Secret](name))
	if i < 0 && !c.outside(name) || i >= 0 && !slices.Contains(keys(c.secrets[i]), key) {
		c.fault("no key %s in a Secret %s", key, name)
	}
}

// pods returns the least number of pods.
func (c checker) pods() (n int) {
	for _, w := range c.workloads {
		if w.replicas != nil {
			n += int(*w.replicas)
		}
	}
	for _, a := range c.autoscalers {
		n += int(*a.Spec.MinReplicas)
	}
	return n
}
