package httpapi

// Endpoints returns the parameters of each, in the order of the document: those
// of the path, and those of the query.
func Endpoints() map[string]string {
	all := map[string]string{}
	for i := range endpoints {
		e := &endpoints[i]
		params := [...]string{"", "", "key ", "key id "}[e.parts]
		for _, name := range e.params.Names() {
			params += name + " "
		}
		if e.method == anyMethod {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
				all[method+" "+e.path()], all[method+" "+e.path()+"/{path}"] = params, "path "
			}
			continue
		}
		all[e.method+" "+e.path()] = params
	}
	return all
}
