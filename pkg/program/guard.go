// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

const (
	// verdictTTL is how long the API server's answer about a reader of metrics is kept: a scrape every few seconds costs it nothing.
	verdictTTL    = 10 * time.Second
	reviewTimeout = 10 * time.Second
)

// guard answers only those whom the API server knows by their token (TokenReview) and allows to read the path
// (SubjectAccessReview).
func guard(handler http.Handler, config *rest.Config) (http.Handler, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client to check readers of metrics: %w", err)
	}
	retries := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                &apiserver.AnonymousAuthConfig{Enabled: false},
		TokenAccessReviewClient:  client.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff:      retries,
		CacheTTL:                 verdictTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("preparing to authenticate readers of metrics: %w", err)
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             verdictTTL,
		DenyCacheTTL:              verdictTTL,
		WebhookRetryBackoff:       retries,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("preparing to authorize readers of metrics: %w", err)
	}
	return guarded(handler, authn, authz), nil
}

func guarded(handler http.Handler, authn authenticator.Request, authz authorizer.UnconditionalAuthorizer) http.Handler {
	handler = filters.WithAuthorization(handler, authz, scheme.Codecs)
	handler = filters.WithAuthentication(handler, authn, filters.Unauthorized(scheme.Codecs), nil, nil)
	handler = filters.WithRequestInfo(handler, &request.RequestInfoFactory{})
	return filters.WithCacheControl(handler)
}

// encrypted is how metrics are served. HTTP/2 is left out: no scraper needs it.
func (s *Serving) encrypted(name string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if s.CertFile == "" {
		own, err := selfSigned(name)
		if err != nil {
			return nil, fmt.Errorf("signing a certificate for metrics: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
		return config, nil
	}
	// Read anew for each connection, since such files are renewed.
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		return &pair, err
	}
	if _, err := load(); err != nil {
		return nil, fmt.Errorf("reading the certificate for metrics: %w", err)
	}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() }
	return config, nil
}

func selfSigned(name string) (tls.Certificate, error) {
	pem, key, err := cert.GenerateSelfSignedCertKey(name, nil, []string{"localhost"})
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pem, key)
}
