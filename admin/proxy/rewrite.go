package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"sluice/admin/internal/answer"
	"sluice/l4/session"
)

// backendHeader names the backend in each response.
const backendHeader = "Sluice-Backend"

// rewrite makes the request for the backend: the path below /proxy and the
// query exactly as the client wrote them, the Host as well (a backend sees what
// it would see behind a TCP frontend), and forwarding headers that are ours
// alone. It runs after the headers of the client's connection were removed, so
// that the client cannot name ours among them.
func (x *exchange) rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	path, err := url.PathUnescape(x.way.Path)
	if err != nil {
		path = x.way.Path // cannot be: the server has parsed it
	}
	out.URL.Path, out.URL.RawPath = path, x.way.Path
	// The path is the backend's alone to interpret, and so is the query: what
	// ReverseProxy drops for our safety would be missed there.
	out.URL.RawQuery = r.In.URL.RawQuery
	out.Host = r.In.Host
	x.setForwarded(r)
	if x.way.Private {
		out.Header.Del("Authorization")
	}
	if !websocket(out.Header) || out.Body != nil {
		out.Header.Del("Connection")
		out.Header.Del("Upgrade")
		out.Header.Del("Http2-Settings")
	}
	out.Trailer = trailer(r.In.Trailer)
}

// trailer returns the trailers to announce. It is the request's own map, which
// fills up as the body is read; one that would smuggle in what rewrite removed
// is dropped whole.
func trailer(t http.Header) http.Header {
	for key := range t {
		if forwarding(key) || key == "Authorization" {
			return nil
		}
	}
	return t
}

// websocket reports whether h asks for, or grants, the only protocol that may
// take over a connection. Any other would let later requests on it pass unseen.
func websocket(h http.Header) bool {
	return strings.EqualFold(h.Get("Upgrade"), "websocket")
}

// answerEarly lets a response pass while the client still sends: by itself the
// server would read the body first, which the client may send only once it has
// part of the response. The connection cannot be used again: when such a body
// is not read to its end, net/http (Go 1.26) reads the next request twice.
func (x *exchange) answerEarly(res *http.Response) {
	_ = http.NewResponseController(x.client).EnableFullDuplex()
	res.Header.Set("Connection", "close")
}

// label names the backend in a response, and refuses an upgrade that was not
// asked for.
func (x *exchange) label(res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		_, both := res.Body.(*duplex)
		if !both || !websocket(res.Header) || !websocket(res.Request.Header) {
			x.cause = session.BackendReset
			x.reached = true
			return answer.Refuse(http.StatusBadGateway, "backend %s switched to a protocol that was not asked for",
				x.attempt.backend.ID())
		}
	}
	res.Header.Set(backendHeader, x.attempt.backend.ID())
	if x.uploading() {
		x.answerEarly(res)
	}
	return nil
}
