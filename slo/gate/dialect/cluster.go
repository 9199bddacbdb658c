package dialect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Cluster reads the history of workloads from the API server, as the service
// account of the pod it runs in: get and list of replicasets and
// controllerrevisions in apps.
type Cluster struct {
	base, tokenFile string
	client          *http.Client
}

// serviceAccount is where Kubernetes mounts the credentials of a pod.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster returns the Cluster this process runs in; false: it runs in none.
func InCluster() (*Cluster, bool, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, false, nil
	}
	c, err := NewCluster("https://"+net.JoinHostPort(host, port), serviceAccount)
	return c, err == nil, err
}

// NewCluster returns a Cluster at base, with ca.crt and token in dir.
func NewCluster(base, dir string) (*Cluster, error) {
	pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("read the cluster's certificate: there is none in it")
	}
	return &Cluster{base: base, tokenFile: filepath.Join(dir, "token"), client: &http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}}, nil
}

// owned is a ReplicaSet or ControllerRevision.
type owned struct {
	Metadata struct {
		Owners []struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Template json.RawMessage `json:"template"`
	} `json:"spec"`
	Data struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	} `json:"data"`
}

// maxPages bounds how much of a namespace is walked for one review.
const maxPages = 10

// Templates lists what the workload had before: of a Deployment its ReplicaSets, of
// the others their ControllerRevisions.
func (c *Cluster) Templates(ctx context.Context, resource, namespace, name, uid string) ([]json.RawMessage, error) {
	list := "controllerrevisions"
	if resource == "deployments" {
		list = "replicasets"
	}
	var out []json.RawMessage
	from := ""
	for range maxPages {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []owned `json:"items"`
		}
		q := url.Values{"limit": {"500"}}
		if from != "" {
			q.Set("continue", from)
		}
		if err := c.get(ctx, "/apis/apps/v1/namespaces/"+url.PathEscape(namespace)+"/"+list+"?"+q.Encode(), &page); err != nil {
			return nil, fmt.Errorf("history of %s/%s: %w", namespace, name, err)
		}
		for _, item := range page.Items {
			for _, o := range item.Metadata.Owners {
				// By uid: a workload that was made anew has no history of its namesake.
				if o.UID != uid || uid == "" {
					continue
				}
				if t := item.Spec.Template; len(t) > 0 {
					out = append(out, t)
				}
				if t := item.Data.Spec.Template; len(t) > 0 {
					out = append(out, t)
				}
			}
		}
		if from = page.Metadata.Continue; from == "" {
			return out, nil
		}
	}
	return out, nil
}

func (c *Cluster) get(ctx context.Context, path string, into any) error {
	// Read anew each time: the token is replaced every hour or so.
	token, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Accept", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server answered %s", resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 64<<20)).Decode(into)
}
