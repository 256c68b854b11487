{{- /* Names, labels and checks that everything shares. */}}

{{- define "recourse.fullname" -}}
{{- .Values.fullnameOverride | default (printf "%s-%s" .Release.Name .Chart.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "recourse.labels" -}}
{{ include "recourse.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "recourse.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "recourse.consoleSelector" -}}
{{ include "recourse.selectorLabels" . }}
app.kubernetes.io/component: console
{{- end }}

{{- define "recourse.image" -}}
{{- with .Values.image }}
{{- $name := empty .registry | ternary .repository (printf "%s/%s" .registry .repository) }}
{{- if .digest }}{{ $name }}@{{ .digest }}{{ else }}{{ $name }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* Which nodes pods get, and before whom; of the values of their workload. */}}
{{- define "recourse.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The account of a workload: its `serviceAccount` as `account`, its `name`. */}}
{{- define "recourse.accountName" -}}
{{- .account.name | default (.account.create | ternary .name "") }}
{{- end }}

{{- /* That account, if it is to be made; `top` too. */}}
{{- define "recourse.account" -}}
{{- if .account.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "recourse.accountName" . }}
  labels:
    {{- include "recourse.labels" .top | nindent 4 }}
  {{- with .account.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
---
{{- end }}
{{- end }}

{{- define "recourse.policyConfigMap" -}}
{{- .Values.policy.existingConfigMap | default (printf "%s-policy" (include "recourse.fullname" .)) }}
{{- end }}

{{- /* Secrets that a pod with the sidecar mounts. */}}
{{- define "recourse.secretNames" -}}
{{- with .Values }}
{{- concat (list .admin.tokenSecret .admin.operatorsSecret .ledger.passwordSecret .ledgerKeySecret .installSecret .interception.caSecret) .policySecrets | compact | join ", " | default "none" }}
{{- end }}
{{- end }}

{{- define "recourse.policyFile" -}}
/etc/recourse/policy/{{ .Values.policy.key }}
{{- end }}

{{- /* Bytes of the ledger: below the volume's, as an emptyDir over its limit is evicted. */}}
{{- define "recourse.ledgerMax" -}}
{{- if .Values.store.ledgerMax }}
{{- .Values.store.ledgerMax }}
{{- else }}
{{- $size := .Values.store.size }}
{{- $units := dict "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $number := regexFind "^[0-9]+" $size | int64 }}
{{- div (mul $number (get $units (trimPrefix (toString $number) $size)) 8) 10 }}
{{- end }}
{{- end }}

{{- /* What the schema cannot say of an injector; of its values alone. */}}
{{- define "recourse.checkInjector" -}}
{{- if .demo.enabled }}
{{- fail "injector.enabled: set demo.enabled to false, as an injector leaves its own namespace alone; or install the demo as a release of its own" }}
{{- end }}
{{- if or .policy.inline (not .policy.existingConfigMap) }}
{{- fail "injector.enabled: pods mount a policy of their own namespace, so name that ConfigMap in policy.existingConfigMap, and not policy.inline" }}
{{- end }}
{{- if eq .store.type "existingClaim" }}
{{- fail "store.type is existingClaim, which all injected pods would share: set pvc, ephemeral or emptyDir" }}
{{- end }}
{{- if .store.expectLedger }}
{{- fail "store.expectLedger refuses volumes without a ledger, as those of new pods are: leave it unset with injector.enabled" }}
{{- end }}
{{- if .ledger.url }}
{{- fail "ledger.url is of one workload, and injected pods are of many: name it in their policies, each with a group of its own" }}
{{- end }}
{{- if eq (int .injector.port) (int .ports.probes) }}
{{- fail (printf "injector.port and ports.probes are both %d: give one of them another port" (int .injector.port)) }}
{{- end }}
{{- if .podDisruptionBudget.enabled }}
{{- fail "podDisruptionBudget is of pods in this namespace: injected ones live in others, and need some of their own" }}
{{- end }}
{{- if or .networkPolicy.egress .networkPolicy.dns }}
{{- fail "networkPolicy.egress and networkPolicy.dns do nothing for injected pods, which live in other namespaces: leave them empty with injector.enabled, and give those namespaces NetworkPolicies of their own" }}
{{- end }}
{{- with .injector.certificate }}
{{- if and .certManager .existingSecret }}
{{- fail "injector.certificate: certManager and existingSecret are both set: choose one of them" }}
{{- end }}
{{- if ne (empty .existingSecret) (empty .ca) }}
{{- fail "injector.certificate: existingSecret and ca belong together: API servers trust the webhook by that CA alone" }}
{{- end }}
{{- $asks := or (ne $.injector.objects.missing "ignore") (not (or .certManager .existingSecret)) }}
{{- if and $asks (not $.injector.serviceAccount.create) (not $.injector.serviceAccount.name) }}
{{- fail "injector.serviceAccount: the injector's rights are of an account of its own: set create, or name one" }}
{{- end }}
{{- if and .issuerRef (not .certManager) }}
{{- fail "injector.certificate.issuerRef is of cert-manager: set certManager" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the schema cannot say. */}}
{{- define "recourse.check" -}}
{{- with .Values }}
{{- if and .policy.inline .policy.existingConfigMap }}
{{- fail "policy.inline and policy.existingConfigMap are both set: choose one of them" }}
{{- end }}
{{- if .injector.enabled }}
{{- include "recourse.checkInjector" . }}
{{- else if not (or .policy.inline .policy.existingConfigMap .demo.enabled) }}
{{- fail "there is no policy: set policy.inline (--set-file policy.inline=policy.yaml) or policy.existingConfigMap" }}
{{- end }}
{{- if lt (int .terminationGracePeriodSeconds) (add .drainSeconds 10 | int) }}
{{- fail (printf "terminationGracePeriodSeconds (%d) must be at least drainSeconds (%d) + 10: else the kubelet kills calls that still run" (int .terminationGracePeriodSeconds) (int .drainSeconds)) }}
{{- end }}
{{- if and (eq .store.type "existingClaim") (not .store.existingClaim) }}
{{- fail "store.type is existingClaim: name the claim in store.existingClaim" }}
{{- end }}
{{- if and .ledger.url (not (and .ledgerKeySecret .installSecret)) }}
{{- fail "ledger.url is for pods that do each other's work: name the Secrets that they share, ledgerKeySecret and installSecret" }}
{{- end }}
{{- if and .steward.enabled (not .ledger.url) }}
{{- fail "steward.enabled is for a ledger that pods share: set ledger.url" }}
{{- end }}
{{- if and .console.enabled (not (and .console.ledgers .console.tlsSecret)) }}
{{- fail "console.enabled: name its ledgers, console.ledgers, and the Secret of its certificate, console.tlsSecret" }}
{{- end }}
{{- if and .demo.enabled (not .ledger.url) (eq .store.type "existingClaim") (gt (int .demo.replicas) 1) }}
{{- fail "store.existingClaim is one volume, and each pod needs a ledger of its own: set demo.replicas to 1, or store.type to pvc" }}
{{- end }}
{{- end }}
{{- end }}
