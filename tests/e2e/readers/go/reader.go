// What Go reads in a request: by net/http and by encoding/json.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

const name = "ask_sum"

func read(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ParseMultipartForm(1 << 20)
	values := []any{}
	for _, form := range []map[string][]string{r.Form, r.PostForm, r.URL.Query()} {
		for _, value := range form[name] {
			values = append(values, value)
		}
	}
	var sent struct {
		Sum any `json:"ask_sum"`
	}
	if json.Unmarshal(body, &sent) == nil && sent.Sum != nil {
		values = append(values, sent.Sum)
	}
	method := r.Method
	if r.FormValue("_method") != "" {
		method = r.FormValue("_method")
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"values": values, "method": method})
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	http.Serve(listener, http.HandlerFunc(read))
}
