//go:build conformance

package conformance_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"encoding/xml"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/config"
)

// misses are the cases of h2spec that fail, and README.md says why.
var misses = map[string][]string{
	"h2c": append([]string{"http2/3.5 Sends invalid connection preface"}, ofNetHTTP...),
	"tls": ofNetHTTP,
}

var ofNetHTTP = []string{
	"http2/6.5.3 Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE",
	"http2/8.1.2.2 Sends a HEADERS frame that contains the connection-specific header field",
	`http2/8.1.2.2 Sends a HEADERS frame that contains the TE header field with any value other than "trailers"`,
}

func TestReliability_F2(t *testing.T) {
	h2spec := install(t, "github.com/summerwind/h2spec/cmd/h2spec", "h2spec")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	}))
	defer up.Close()
	upstream := config.Upstream{Endpoints: []config.Endpoint{{Address: strings.TrimPrefix(up.URL, "http://")}}}
	for _, tt := range []struct {
		name string
		set  config.Gateway
		args []string
	}{
		{"h2c", config.Gateway{}, nil},
		{"tls", config.Gateway{TLS: identity(t)}, []string{"-t", "-k", "-S"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host, port, err := net.SplitHostPort(listen(t, tt.set, upstream))
			if err != nil {
				t.Fatal(err)
			}
			report := filepath.Join(t.TempDir(), "report.xml")
			args := append([]string{"-h", host, "-p", port, "-o", "3", "-j", report}, tt.args...)
			out, runErr := exec.CommandContext(t.Context(), h2spec, args...).CombinedOutput() // fails where a case does
			text, err := os.ReadFile(report)
			if err != nil {
				t.Fatalf("%v, %v\n%s", runErr, err, out)
			}
			var all struct {
				Suites []struct {
					Cases []struct {
						Package string    `xml:"package,attr"`
						Name    string    `xml:"classname,attr"`
						Failure *struct{} `xml:"failure"`
						Error   *struct{} `xml:"error"`
					} `xml:"testcase"`
				} `xml:"testsuite"`
			}
			if err := xml.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			total, failed := 0, []string{}
			for _, s := range all.Suites {
				for _, c := range s.Cases {
					total++
					if c.Failure != nil || c.Error != nil {
						failed = append(failed, c.Package+" "+c.Name)
					}
				}
			}
			t.Logf("%d of %d pass", total-len(failed), total)
			if total < 140 {
				t.Errorf("only %d cases ran\n%s", total, out)
			}
			want := slices.Sorted(slices.Values(misses[tt.name]))
			slices.Sort(failed)
			if !slices.Equal(failed, want) {
				t.Errorf("failed\n%s\nexpected to fail\n%s\n%s", strings.Join(failed, "\n"), strings.Join(want, "\n"), out)
			}
		})
	}
}

// identity makes a certificate for this machine.
func identity(t *testing.T) *config.Identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := &config.Identity{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for name, block := range map[string]*pem.Block{
		files.Cert: {Type: "CERTIFICATE", Bytes: der}, files.Key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
